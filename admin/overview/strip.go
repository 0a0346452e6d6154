package overview

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/history"
)

// enrich adds to the strip what the living jobs do not tell: how the last quarter of an hour's attempts went, and how
// late they were.
func (h *Handler) enrich(ctx context.Context, s *page.Strip) {
	s.Unattended = slices.ContainsFunc(h.openAlerts(ctx), func(a alert.Alert) bool { return a.Has("no_consumer") })
	if late, known := h.Lateness(ctx, 0.95); known {
		s.LatenessP95 = late
	}
	s.SuccessRate = h.successRate(ctx)
}

func (h *Handler) successRate(ctx context.Context) float64 {
	p, err := h.figures.History.Series(ctx, history.AllTopics, history.Spans()[0])
	attempts := p.Sums["delivered"] + p.Sums["failed"]
	if err != nil || attempts == 0 {
		return math.NaN()
	}
	return float64(p.Sums["delivered"]) / float64(attempts)
}

const stripEvery = 2 * time.Second

// stripSource keeps the strip live: sums over all topics.
func (h *Handler) stripSource() {
	h.Live("strip", stripEvery, "partials/strip", func(ctx context.Context, _ string) (any, error) {
		s := h.Strip(ctx)
		h.SetStrip(s)
		return s, nil
	})
}

// Strip sums up all topics.
func (h *Handler) Strip(ctx context.Context) *page.Strip {
	counts := h.figures.Counts(ctx)
	s := &page.Strip{
		Stats: counts.Sum(), Known: counts.Known(), Old: counts.Old(), At: counts.At, Missing: counts.Missing,
		SuccessRate: math.NaN(), LatenessP95: -1,
	}
	h.enrich(ctx, s)
	s.Wrong = h.wrong(ctx)
	s.Wrong["dead"] = int(s.Dead)
	return s
}

// wrong counts what the pages show as wrong, by their entries in the menu.
func (h *Handler) wrong(ctx context.Context) map[string]int {
	o := h.overviewLive(ctx)
	wrong := map[string]int{"overview": o.Problems.Count(), "alerts": len(h.openAlerts(ctx))}
	for _, s := range o.Shards {
		if s.Down() {
			wrong["shards"]++
		}
	}
	if o.Tree != nil {
		for _, p := range o.Tree.Processes {
			if p.State == "waiting" {
				wrong["processes"]++
			}
		}
	}
	return wrong
}
