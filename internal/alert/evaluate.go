package alert

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// openAlert is an open alert and what this process knows about it.
type openAlert struct {
	Alert
	found   map[string]time.Time // by kind of cause: when a host last found it
	unsaved bool
}

// touchEvery is how often an unchanged open alert is stored.
const touchEvery = 30 * time.Second

// evaluate opens, updates and ends alerts. mine are this host's findings. Findings of other hosts count while their
// reports are recent. While the store is unavailable, this host's judgement replaces theirs.
func (a *Alerts) evaluate(ctx context.Context, s *Settings, mine []Finding, over Judge, now time.Time) {
	found := map[string]bool{}
	for i := range mine {
		found[mine[i].id()] = true
		a.raise(&mine[i], now)
	}
	a.others = slices.DeleteFunc(a.others, func(f Finding) bool { return found[f.id()] })
	for i := range a.others {
		a.raise(&a.others[i], now)
	}
	for _, o := range a.open {
		a.settle(ctx, s, o, over, now)
	}
}

// raise opens an alert for a finding, or updates the open one.
func (a *Alerts) raise(f *Finding, now time.Time) {
	o := a.open[f.Key()]
	if o == nil {
		host := cmp.Or(f.Host, a.opts.Host)
		o = &openAlert{
			Alert: Alert{Key: f.Key(), Topic: f.Topic, Shard: f.Shard, Host: host, BeganAt: now},
			found: map[string]time.Time{},
		}
		a.open[o.Key] = o
	}
	o.add(f.Cause, now)
}

// add adds or updates a cause.
func (o *openAlert) add(c Cause, now time.Time) {
	o.found[c.Kind], c.BeganAt = now, now
	o.Causes = slices.Clone(o.Causes) // waiting messages share the old slice
	i := slices.IndexFunc(o.Causes, func(x Cause) bool { return x.Kind == c.Kind })
	if i < 0 {
		o.Causes, o.LastSeenAt = append(o.Causes, c), time.Time{}
		return
	}
	c.BeganAt = o.Causes[i].BeganAt
	o.Causes[i] = c
}

var levels = map[string]slog.Level{Critical: slog.LevelError, Warning: slog.LevelWarn, Info: slog.LevelInfo}

// settle removes ended causes from an alert, and resolves it when none remains.
func (a *Alerts) settle(ctx context.Context, s *Settings, o *openAlert, over Judge, now time.Time) {
	left := o.Causes[:0:0]
	foundNow := false
	for _, c := range o.Causes {
		f := Finding{Topic: o.Topic, Shard: o.Shard, Cause: c}
		last, known := o.found[c.Kind]
		if !known { // another process led until now
			o.found[c.Kind], last = now, now
		}
		foundNow = foundNow || known && last.Equal(now)
		if last.Equal(now) || now.Sub(last) < s.calmFor(&f) || !over(f) {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		a.end(s, o, now)
		return
	}
	slices.SortFunc(left, worstFirst)
	changed := len(left) < len(o.Causes) || o.LastSeenAt.IsZero()
	o.Causes, o.Kind, o.Severity = left, left[0].Kind, left[0].Severity
	say := a.opts.Say(s.Language)
	o.Subject, o.Detail = o.Title(say), strings.Join(o.Details(say, brief), "; ")
	if changed {
		a.opts.Logger.Log(ctx, levels[o.Severity], "an alert", "subject", o.Subject, "detail", o.Detail)
	}
	if changed || foundNow && now.Sub(o.LastSeenAt) >= touchEvery {
		o.LastSeenAt, o.Count, o.unsaved = now, o.Count+1, true
	}
}

func (a *Alerts) end(s *Settings, o *openAlert, now time.Time) {
	a.opts.Logger.Info("alert resolved", "subject", o.Title(a.opts.Say(s.Language)),
		"lasted", now.Sub(o.BeganAt).Round(time.Second).String())
	o.EndedAt = &now
	a.ended = append(a.ended, &o.Alert)
	delete(a.open, o.Key)
}
