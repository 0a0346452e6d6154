package overview

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// enrich adds to the strip what the living jobs do not tell: how the last quarter of an hour's attempts went, and how
// late they were.
func (h *Handler) enrich(ctx context.Context, s *page.Strip) {
	s.Unattended = len(h.openAlerts(ctx, "no_consumer")) > 0
	if f := h.opts.Lateness; f != nil {
		if late, known := f(ctx, 0.95); known {
			s.LatenessP95 = late
		}
	}
	s.SuccessRate = h.successRate(ctx)
}

// someAnswered reports whether an error only means that some of the shards did not answer. Without any, zeros would look
// like peace.
func (h *Handler) someAnswered(err error) bool {
	var partial *queue.PartialError
	if !errors.As(err, &partial) {
		return false
	}
	used := 0
	for _, s := range h.registry.ListShards() {
		if s.State != registry.ShardOffline {
			used++
		}
	}
	return len(partial.Shards) < used
}

func (h *Handler) successRate(ctx context.Context) float64 {
	if h.figures.History() == nil {
		return math.NaN()
	}
	p, err := h.figures.History().Series(ctx, history.AllTopics, history.Spans()[0])
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
		s, err := h.Strip(ctx)
		if err != nil {
			return nil, err
		}
		h.SetStrip(s)
		return s, nil
	})
}

// Strip sums up all topics.
func (h *Handler) Strip(ctx context.Context) (*page.Strip, error) {
	stats, err := h.queue.Stats(ctx, page.TopicNames(h.Snapshot()))
	if err != nil && !h.someAnswered(err) {
		return nil, err
	}
	s := sumStrip(stats)
	h.enrich(ctx, s)
	return s, nil
}

func sumStrip(stats map[string]queue.Stats) *page.Strip {
	s := &page.Strip{Retrying: -1, SuccessRate: math.NaN(), LatenessP95: -1}
	for _, t := range stats {
		s.Delayed += t.Delayed
		s.Ready += t.Ready
		s.Running += t.Running
		s.Dead += t.Dead
	}
	return s
}
