package alert

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// openAlert is an open alert as this host knows it.
type openAlert struct {
	alert    Alert
	found    map[string]time.Time // by kind of cause: when this host last found it
	stored   bool                 // the store knows it
	storedAt time.Time            // zero: store it now
	over     bool                 // the store does not know this yet
}

const (
	touchEvery = 30 * time.Second // for alerts that are already stored
	adoptEvery = time.Minute
	staleAfter = 5 * time.Minute
	listLimit  = 1000
)

// listOpen returns the open alerts of all hosts.
func (a *Alerts) listOpen(ctx context.Context) (list []Alert, err error) {
	open := true
	err = a.callStore(ctx, func(ctx context.Context) (err error) {
		list, err = a.opts.Store.ListAlerts(ctx, Filter{Open: &open, Limit: listLimit})
		return err
	})
	return list, err
}

// adopt takes over alerts whose host has stopped: those of an earlier run of this host, and those that no host has
// found for a while. They end when this host can tell that they are over.
func (a *Alerts) adopt(ctx context.Context, now time.Time) {
	if now.Sub(a.lastAdopt) < adoptEvery {
		return
	}
	list, err := a.listOpen(ctx)
	if err != nil {
		return
	}
	for _, alert := range list {
		mine := !a.adopted && alert.Host == a.opts.Host
		if a.open[alert.Key] == nil && (mine || now.Sub(alert.LastSeenAt) >= staleAfter) {
			if len(alert.Causes) == 0 { // written by an earlier version
				alert.Causes = []Cause{{Kind: alert.Kind, Severity: alert.Severity, BeganAt: alert.BeganAt}}
			}
			a.open[alert.Key] = &openAlert{alert: alert, found: map[string]time.Time{}, stored: true, storedAt: now}
		}
	}
	a.adopted, a.lastAdopt = true, now
}

// raise opens an alert for the findings about a subject, or updates the open one.
func (a *Alerts) raise(key string, list []Finding, now time.Time) {
	o := a.open[key]
	if o == nil || o.over {
		o = &openAlert{
			alert: Alert{Key: key, Topic: list[0].Topic, Shard: list[0].Shard, Host: a.opts.Host, BeganAt: now},
			found: map[string]time.Time{},
		}
		a.open[key] = o
	}
	for _, f := range list {
		o.add(f.Cause, now)
	}
}

// add adds or updates a cause.
func (o *openAlert) add(c Cause, now time.Time) {
	o.found[c.Kind], c.BeganAt = now, now
	o.alert.Causes = slices.Clone(o.alert.Causes) // messages that are not stored yet share the old slice
	i := slices.IndexFunc(o.alert.Causes, func(x Cause) bool { return x.Kind == c.Kind })
	if i < 0 {
		o.alert.Causes, o.storedAt = append(o.alert.Causes, c), time.Time{}
		return
	}
	c.BeganAt = o.alert.Causes[i].BeganAt
	o.alert.Causes[i] = c
}

var levels = map[string]slog.Level{Critical: slog.LevelError, Warning: slog.LevelWarn, Info: slog.LevelInfo}

// settle removes causes that are over from an alert, stores the alert, and closes it when no cause is left.
func (a *Alerts) settle(ctx context.Context, s *Settings, key string, o *openAlert, over Judge, now time.Time) {
	left := o.alert.Causes[:0:0]
	for _, c := range o.alert.Causes {
		f := Finding{Topic: o.alert.Topic, Shard: o.alert.Shard, Cause: c}
		lately := now.Sub(o.found[c.Kind]) < s.calmFor(&f)
		if o.found[c.Kind].Equal(now) || lately || !over(f) {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		a.end(ctx, key, o, now)
		return
	}
	if len(left) < len(o.alert.Causes) {
		o.storedAt = time.Time{}
	}
	slices.SortFunc(left, worstFirst)
	o.alert.Causes, o.alert.Kind, o.alert.Severity = left, left[0].Kind, left[0].Severity
	say := a.opts.Say(s.Language)
	o.alert.Subject, o.alert.Detail = o.alert.Title(say), strings.Join(o.alert.Details(say, brief), "; ")
	if !slices.Contains(slices.Collect(maps.Values(o.found)), now) {
		return // other hosts may still find it
	}
	if o.storedAt.IsZero() {
		level := levels[o.alert.Severity]
		a.opts.Logger.Log(ctx, level, "an alert", "subject", o.alert.Subject, "detail", o.alert.Detail)
	}
	if now.Sub(o.storedAt) >= touchEvery {
		a.store(ctx, o, now)
	}
}

func (a *Alerts) store(ctx context.Context, o *openAlert, now time.Time) {
	report := o.alert
	report.Host = a.opts.Host // another host may have raised it
	var stored Alert
	err := a.callStore(ctx, func(ctx context.Context) (err error) {
		stored, err = a.opts.Store.RaiseAlert(ctx, report)
		return err
	})
	o.storedAt = now
	switch {
	case err != nil:
		o.storedAt = now.Add(-touchEvery) // store it in the next round: otherwise people would be notified that it is over
	case stored.ID != 0:
		o.alert, o.stored = stored, true
	}
}

// end closes an alert that this host no longer finds. It is tried again while other hosts find the alert, or while the
// store is unavailable.
func (a *Alerts) end(ctx context.Context, key string, o *openAlert, now time.Time) {
	over := true
	err := a.callStore(ctx, func(ctx context.Context) (err error) {
		over, err = a.opts.Store.EndAlert(ctx, key, a.opts.Host, now)
		return err
	})
	if err == nil && !over {
		o.storedAt = time.Time{} // if this host finds it again, it stores that at once
		return
	}
	if !o.over {
		a.opts.Logger.Info("an alert is over", "subject", o.alert.Subject,
			"lasted", now.Sub(o.alert.BeganAt).Round(time.Second).String())
	}
	if o.over = true; err == nil {
		delete(a.open, key)
	}
}
