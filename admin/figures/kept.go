package figures

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/pause"
)

// Stored is the age of data read from the registry's database.
type Stored struct {
	At  time.Time // when it was read; zero: never
	Old bool      // the database has been unavailable since then
}

// Known reports whether it was ever read.
func (s Stored) Known() bool { return !s.At.IsZero() }

// Alerts are the open alerts, most severe first, including muted ones.
type Alerts struct {
	Stored
	List []alert.Alert
}

// ByTopic returns the alerts that are about a topic.
func (a Alerts) ByTopic() map[string]*alert.Alert {
	list := map[string]*alert.Alert{}
	for i := range a.List {
		if name := a.List[i].Topic; name != "" {
			list[name] = &a.List[i]
		}
	}
	return list
}

// kept caches what was last read from the registry's database, to show while the database is unavailable.
type kept struct {
	mu     sync.Mutex
	series map[[2]string]keptSeries // by series and span
	read   Stored                   // the newest series

	alertsMu sync.Mutex
	asked    time.Time
	alerts   Alerts
}

type keptSeries struct {
	history.Points
	at time.Time
}

const (
	seriesKept  = 300
	alertsFresh = 1500 * time.Millisecond
	alertsKept  = 1000
)

// Series returns a span of a series. While the database is unavailable it returns what it last read.
func (h *Handler) Series(ctx context.Context, series, span string) (history.Points, Stored) {
	k, key := &h.kept, [2]string{series, span}
	if p, ok := h.readSeries(ctx, series, span); ok {
		k.keep(key, keptSeries{p, h.Now()})
		return p, Stored{At: h.Now()}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.series[key]
	return last.Points, Stored{At: last.at, Old: true}
}

// readSeries reads a span of a series, unless the database is known to be unavailable: waiting would delay every page.
func (h *Handler) readSeries(ctx context.Context, series, span string) (p history.Points, ok bool) {
	read := Stored{Old: true}
	if h.Registry.Up() {
		var err error
		if p, err = h.History.Series(ctx, series, span); err == nil {
			read = Stored{At: h.Now()}
		} else {
			h.Log.Debug("read the history", "series", series, "error", err)
		}
	}
	k := &h.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if read.Old {
		read.At = k.read.At
	}
	if ctx.Err() == nil { // a browser that disconnects says nothing about the database
		k.read = read
	}
	return p, !read.Old
}

func (k *kept) keep(key [2]string, p keptSeries) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.series == nil {
		k.series = map[[2]string]keptSeries{}
	}
	if len(k.series) > seriesKept {
		maps.DeleteFunc(k.series, func(key [2]string, _ keptSeries) bool { return key[0] != history.AllTopics })
	}
	k.series[key] = p
}

// Stored returns the age of the newest series that was read.
func (h *Handler) Stored() Stored {
	h.kept.mu.Lock()
	defer h.kept.mu.Unlock()
	return h.kept.read
}

// OpenAlerts returns the open alerts. While the database is unavailable, it returns those last read.
func (h *Handler) OpenAlerts(ctx context.Context) Alerts {
	k := &h.kept
	k.alertsMu.Lock()
	defer k.alertsMu.Unlock()
	now := h.Now()
	if !k.asked.IsZero() && now.Sub(k.asked) < alertsFresh {
		return k.alerts
	}
	k.alerts.Old = true
	if h.Registry.Up() {
		list, err := h.Alerts.ListAlerts(ctx, alert.Filter{Limit: alertsKept})
		if err == nil {
			k.alerts = Alerts{Stored{At: now}, list}
		} else {
			h.Log.Debug("list the open alerts", "error", err)
		}
	}
	if ctx.Err() == nil {
		k.asked = now
	}
	return k.alerts
}

// RefusedPushes returns the last streak of refused pushes, unless it is unknown.
func (h *Handler) RefusedPushes(ctx context.Context) refusals.Streak {
	if h.Refused == nil || !h.Registry.Up() {
		return nil
	}
	s, err := h.Refused(ctx)
	if err != nil {
		h.Log.Debug("read the refused pushes", "error", err)
	}
	return s
}

// keepEvery is how often figures are read while no page is open, so there are some to show when a server fails.
const keepEvery = time.Minute

// Keep reads the figures of the first pages once a minute until ctx is done.
func (h *Handler) Keep(ctx context.Context) {
	for {
		limited, cancel := context.WithTimeout(ctx, keepEvery)
		h.OpenAlerts(limited)
		h.Counts(limited)
		h.Lateness(limited)
		for _, span := range history.Spans() {
			h.Series(limited, history.AllTopics, span)
		}
		cancel()
		if !pause.For(ctx, keepEvery) {
			return
		}
	}
}
