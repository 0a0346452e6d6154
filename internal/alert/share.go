package alert

import (
	"context"
	"slices"
	"time"
)

// Report contains the findings of a process.
type Report struct {
	Host     string
	Process  string // candidate for the lease
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

// sync reports this host's findings and reads the shared state. If the store is unavailable, it returns false and the
// state does not change. A process that leads keeps its changes that it could not save, such as those during an outage
// of the store. Other processes discard theirs, because they are about the same problems.
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

// refresh returns an open alert with the state of both the store and this process.
func (a *Alerts) refresh(x Alert) *openAlert {
	o := a.open[x.Key]
	switch {
	case o == nil:
		return &openAlert{Alert: x, found: map[string]sighting{}}
	case o.unsaved && a.leads:
		o.ID, o.Handling = x.ID, x.Handling
	default:
		o.Alert, o.unsaved = x, false
	}
	return o
}

// save saves the changes. A process that does not lead saves only the results of its messages, and the waiting ones
// when it stops.
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
		return // the next round retries
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
