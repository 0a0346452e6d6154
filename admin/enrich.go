package admin

import (
	"context"
	"math"

	"github.com/wakecall/wakecall/history"
)

// enrich adds to the strip what the living jobs do not tell: how the last quarter of an hour's attempts went, and how late they were.
func (a *Admin) enrich(ctx context.Context, s *Strip) {
	if f := a.opts.Pages.Lateness; f != nil {
		if late, known := f(ctx, 0.95); known {
			s.LatenessP95 = late
		}
	}
	s.SuccessRate = a.successRate(ctx)
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
