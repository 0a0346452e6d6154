package alert

import (
	"context"
	"slices"
	"time"
)

// Report is what a process finds.
type Report struct {
	Host     string
	Process  string // the candidate for the lease
	Findings []Finding
}

// Shared is the state that hosts share.
type Shared struct {
	Leads     bool                 // the process holds the lease
	Others    []Finding            // what other hosts find
	Open      []Alert              // the open alerts
	Receivers map[string]*Notified // by name
	Waiting   []Delivery           // messages to send; only for the process that leads
}

// Changes are changes to the shared state.
type Changes struct {
	Alerts     []*Alert
	Receivers  map[string]*Notified
	Deliveries []Delivery
}

// sync reports what this host finds and reads the shared state; false: the store is unavailable, and the state stays as
// it was. A process that leads keeps changes of its own that it could not save, such as those of an outage of the
// store. Those of another process are void: they are about the same problems.
func (a *Alerts) sync(ctx context.Context, mine []Finding, now time.Time) bool {
	var sh Shared
	err := a.callStore(ctx, func(ctx context.Context) (err error) {
		sh, err = a.opts.Store.Sync(ctx, Report{a.opts.Host, a.process, mine})
		return err
	})
	if err != nil {
		return false
	}
	a.leads, a.synced, a.others = sh.Leads, now, sh.Others
	if !a.leads {
		a.ended = nil
		a.outbox.handOver()
	}
	open := map[string]*openAlert{}
	for _, x := range sh.Open {
		if !a.hasEnded(&x) {
			open[x.Key] = a.refresh(x)
		}
	}
	for key, o := range a.open {
		if open[key] == nil && o.unsaved && a.leads {
			open[key] = o
		}
	}
	for name, n := range a.receivers {
		if n.unsaved && a.leads {
			sh.Receivers[name] = n
		}
	}
	a.open, a.receivers = open, sh.Receivers
	a.outbox.take(sh.Waiting)
	return true
}

// hasEnded reports whether an alert that is open in the store has ended here.
func (a *Alerts) hasEnded(x *Alert) bool {
	i := slices.IndexFunc(a.ended, func(e *Alert) bool { return e.Key == x.Key && e.BeganAt.Equal(x.BeganAt) })
	if i >= 0 {
		a.ended[i].ID = x.ID
	}
	return i >= 0
}

// refresh returns an open alert with what the store and this process know about it.
func (a *Alerts) refresh(x Alert) *openAlert {
	o := a.open[x.Key]
	switch {
	case o == nil:
		return &openAlert{Alert: x, found: map[string]time.Time{}}
	case o.unsaved && a.leads:
		o.ID, o.Handling = x.ID, x.Handling
	default:
		o.Alert, o.unsaved = x, false
	}
	return o
}

// save saves what changed. A process that does not lead saves the results of its messages only, and those that wait
// when it ends.
func (a *Alerts) save(ctx context.Context, waiting bool) {
	c := Changes{Deliveries: a.outbox.unsaved(waiting), Receivers: map[string]*Notified{}}
	if a.leads {
		c.Alerts = slices.Clone(a.ended) // first, because only one alert with a key may be open
		for _, o := range a.open {
			if o.unsaved {
				c.Alerts = append(c.Alerts, &o.Alert)
			}
		}
		for name, n := range a.receivers {
			if n.unsaved {
				c.Receivers[name] = n
			}
		}
	}
	if len(c.Alerts)+len(c.Receivers)+len(c.Deliveries) == 0 {
		return
	}
	if a.callStore(ctx, func(ctx context.Context) error { return a.opts.Store.Save(ctx, &c) }) != nil {
		return // the next round tries again
	}
	a.outbox.saved(c.Deliveries)
	if !a.leads {
		return
	}
	a.ended = nil
	for _, o := range a.open {
		o.unsaved = false
	}
	for _, n := range a.receivers {
		n.unsaved = false
	}
}
