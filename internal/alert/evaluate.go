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
	found   map[string]sighting // by kind of cause
	unsaved bool
}

// sighting is when a host last found a cause, and when the cause was last so.
type sighting struct{ at, seen time.Time }

// touchEvery is how often an open alert is stored, with the numbers that pages and commands show.
const touchEvery = 10 * time.Second

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
	c := f.Cause
	c.BeganAt, c.SeenAt, c.FoundAt = atMost(c.BeganAt, now), atMost(c.SeenAt, now), now
	o := a.open[f.Key()]
	if o == nil {
		host := cmp.Or(f.Host, a.opts.Host)
		o = &openAlert{
			Alert: Alert{Key: f.Key(), Topic: f.Topic, Shard: f.Shard, Host: host, BeganAt: c.BeganAt},
			found: map[string]sighting{},
		}
		a.open[o.Key] = o
	}
	if !slices.ContainsFunc(o.Causes, func(x Cause) bool { return x.Kind == c.Kind && x.lasts() }) {
		c.Flaps = a.flaps(f.id(), now)
	}
	o.add(c, now)
}

// A cause that came back flapReturns times within flapSpan stays open until it has not been found for flapSpan.
const (
	flapSpan    = 10 * time.Minute
	flapReturns = 2
)

// flaps records that a cause begins, and reports whether it flaps. This is not stored: another process that evaluates
// alerts begins to count anew.
func (a *Alerts) flaps(id string, now time.Time) bool {
	old := func(at time.Time) bool { return now.Sub(at) > flapSpan }
	for id, list := range a.begins {
		if a.begins[id] = slices.DeleteFunc(list, old); len(a.begins[id]) == 0 {
			delete(a.begins, id)
		}
	}
	a.begins[id] = append(a.begins[id], now)
	return len(a.begins[id]) > flapReturns
}

// atMost returns a time as the store has it, but not after now. An unknown time is now.
func atMost(at, now time.Time) time.Time {
	if at.IsZero() || at.After(now) {
		return now
	}
	return at.UTC().Truncate(time.Microsecond)
}

func latest(first time.Time, others ...time.Time) time.Time {
	return slices.MaxFunc(append(others, first), time.Time.Compare)
}

// add adds or updates a cause.
func (o *openAlert) add(c Cause, now time.Time) {
	o.Causes = slices.Clone(o.Causes) // waiting messages share the old slice
	i := slices.IndexFunc(o.Causes, func(x Cause) bool { return x.Kind == c.Kind })
	switch {
	case i < 0:
		o.Causes, o.LastSeenAt = append(o.Causes, c), time.Time{}
	case !o.Causes[i].lasts():
		o.Causes[i], o.LastSeenAt = c, time.Time{}
	default:
		was := o.Causes[i]
		c.BeganAt, c.FoundAt, c.Flaps = was.BeganAt, was.FoundAt, was.Flaps
		c.SeenAt = latest(c.SeenAt, was.SeenAt, o.found[c.Kind].seen)
		o.unsaved = o.unsaved || c.Recovering != was.Recovering || c.Kind == "refused" && c.N != was.N
		o.Causes[i] = c
	}
	o.found[c.Kind] = sighting{now, c.SeenAt}
}

var levels = map[string]slog.Level{Critical: slog.LevelError, Warning: slog.LevelWarn, Info: slog.LevelInfo}

// settle ends causes of an alert, and the alert if none remains.
func (a *Alerts) settle(ctx context.Context, s *Settings, o *openAlert, over Judge, now time.Time) {
	left, past := o.Causes[:0:0], o.Causes[:0:0]
	foundNow, changed := false, o.LastSeenAt.IsZero()
	for _, c := range o.Causes {
		f := Finding{Topic: o.Topic, Shard: o.Shard, Cause: c}
		last, known := o.found[c.Kind]
		if !known { // another process led until now
			last = sighting{at: now}
			o.found[c.Kind] = last
		}
		foundNow = foundNow || known && last.at.Equal(now)
		gone := !last.at.Equal(now) && c.lasts() && over(f)
		switch {
		case !c.lasts():
			past = append(past, c)
		case gone && now.Sub(last.at) >= s.calmFor(&f):
			c.EndedAt, c.Recovering, changed = latest(o.BeganAt, c.BeganAt, c.SeenAt, last.seen), false, true
			past = append(past, c)
		default:
			o.unsaved = o.unsaved || gone && !c.Recovering
			c.Recovering = c.Recovering || gone
			left = append(left, c)
		}
	}
	slices.SortFunc(left, worstFirst)
	slices.SortFunc(past, worstFirst)
	o.Causes = append(left, past...)
	o.Kind, o.Severity = o.Causes[0].Kind, o.Causes[0].Severity
	if len(left) == 0 {
		a.end(s, o)
		return
	}
	say := a.opts.Say(s.Language)
	o.Subject, o.Detail = o.Title(say), strings.Join(o.Details(say, brief), "; ")
	if changed {
		a.opts.Logger.Log(ctx, levels[o.Severity], "an alert", "subject", o.Subject, "detail", o.Detail)
	}
	if changed || foundNow && now.Sub(o.LastSeenAt) >= touchEvery {
		o.LastSeenAt, o.Count, o.unsaved = now, o.Count+1, true
	}
}

// end ends an alert at the end of its last cause, and keeps it for the receivers that are still to be notified of it.
func (a *Alerts) end(s *Settings, o *openAlert) {
	ended := o.Causes[0].EndedAt
	for _, c := range o.Causes {
		ended = latest(ended, c.EndedAt)
	}
	a.opts.Logger.Info("alert resolved", "subject", o.Title(a.opts.Say(s.Language)),
		"lasted", ended.Sub(o.BeganAt).Round(time.Second).String())
	o.EndedAt = &ended
	for _, n := range a.receivers {
		n.ended(&o.Alert)
	}
	a.ended = append(a.ended, &o.Alert)
	delete(a.open, o.Key)
}
