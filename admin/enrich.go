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
func (a *Admin) enrich(ctx context.Context, s *Strip) {
	s.Unattended = len(a.openAlerts(ctx, "no_consumer")) > 0
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
