package admin

import (
	"context"
	"errors"
	"math"

	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// enrich adds to the strip what the living jobs do not tell: how the last quarter of an hour's attempts went, and how late they were.
func (a *Admin) enrich(ctx context.Context, s *Strip, stats map[string]queue.Stats) {
	s.Unattended = s.Unattended && a.unattended(ctx, stats)
	if f := a.opts.Pages.Lateness; f != nil {
		if late, known := f(ctx, 0.95); known {
			s.LatenessP95 = late
		}
	}
	s.SuccessRate = a.successRate(ctx)
}

// someAnswered says whether an error only means that some of the shards did not answer. Without any, zeros would look like peace.
func (a *Admin) someAnswered(err error) bool {
	var partial *queue.PartialError
	if !errors.As(err, &partial) {
		return false
	}
	used := 0
	for _, s := range a.registry.ListShards() {
		if s.State != registry.ShardOffline {
			used++
		}
	}
	return len(partial.Shards) < used
}

// unattended says whether jobs wait that somebody ought to take: those of active topics whose endpoints may be called.
func (a *Admin) unattended(ctx context.Context, stats map[string]queue.Stats) bool {
	topics := a.registry.Snapshot().Topics
	var open map[string]int64
	for name, s := range stats {
		t := topics[name]
		if t == nil || t.State != registry.TopicActive || s.OldestReady <= unattendedAfter {
			continue
		}
		if open == nil {
			open = a.breakers(ctx, stats)
		}
		if open[name] == 0 {
			return true
		}
	}
	return false
}

func (a *Admin) successRate(ctx context.Context) float64 {
	if a.opts.Pages.History == nil {
		return math.NaN()
	}
	p, err := a.opts.Pages.History.Series(ctx, history.AllTopics, history.Spans()[0])
	attempts := p.Sums["delivered"] + p.Sums["failed"]
	if err != nil || attempts == 0 {
		return math.NaN()
	}
	return float64(p.Sums["delivered"]) / float64(attempts)
}
