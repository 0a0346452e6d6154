package admin

import (
	"context"
	"math"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// Strip is the line of totals on every page. Numbers that are not known are negative.
type Strip struct {
	Delayed, Ready, Running, Retrying, Dead int64
	SuccessRate                             float64 // of the last minutes, 0 to 1; NaN: no attempts
	LatenessP95                             time.Duration
	Unattended                              bool // jobs are ready, and nobody takes any: the alert no_consumer
}

// Known says whether a number is.
func (s *Strip) Known(n int64) bool { return n >= 0 }

// HasRate says whether there were attempts.
func (s *Strip) HasRate() bool { return !math.IsNaN(s.SuccessRate) }

const stripEvery = 2 * time.Second

func (a *Admin) lastStrip() *Strip { return a.shown.Load() }

// stripSource keeps the strip live. Options.Pages.Strip gives the data when history is kept; else it is summed up from all topics.
func (a *Admin) stripSource() {
	a.live("strip", stripEvery, "partials/strip", func(ctx context.Context, _ string) (any, error) {
		s, err := a.strip(ctx)
		if err != nil {
			return nil, err
		}
		a.shown.Store(s)
		return s, nil
	})
}

func (a *Admin) strip(ctx context.Context) (*Strip, error) {
	if f := a.opts.Pages.Strip; f != nil {
		return f(ctx)
	}
	topics := a.registry.Snapshot().Topics
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	stats, err := a.queue.Stats(ctx, names)
	if err != nil && !a.someAnswered(err) {
		return nil, err
	}
	s := sumStrip(stats)
	a.enrich(ctx, s)
	return s, nil
}

func sumStrip(stats map[string]queue.Stats) *Strip {
	s := &Strip{Retrying: -1, SuccessRate: math.NaN(), LatenessP95: -1}
	for _, t := range stats {
		s.Delayed += t.Delayed
		s.Ready += t.Ready
		s.Running += t.Running
		s.Dead += t.Dead
	}
	return s
}
