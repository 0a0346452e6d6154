package app

import (
	"context"

	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// forecaster returns the function that says when the waiting jobs of a topic are cleared.
func (p *parts) forecaster() func(ctx context.Context, t *registry.Topic) (forecast.Answer, error) {
	r := &forecast.Reader{
		Queue:    p.figures(),
		History:  &pastWhileUp{history.Reader{Store: history.NewStore(p.registry.DB())}, p.registry.Up},
		Activity: activity.NewReader(p.figures()), Snapshot: p.registry.Snapshot,
	}
	return func(ctx context.Context, t *registry.Topic) (forecast.Answer, error) {
		a, _, err := r.Topic(ctx, t)
		return a, err
	}
}

// pastWhileUp is the history, unless the database is down: alerts and metrics do not wait for it then.
type pastWhileUp struct {
	history.Reader
	up func() bool
}

func (h *pastWhileUp) Series(ctx context.Context, series, span string) (history.Points, error) {
	if !h.up() {
		return history.Points{}, registry.ErrUnavailable
	}
	return h.Reader.Series(ctx, series, span)
}

// forecastOf returns the same by name. Its answer is zero if nothing is known.
func (p *parts) forecastOf() func(ctx context.Context, topic string) forecast.Answer {
	of := p.forecaster()
	return func(ctx context.Context, topic string) forecast.Answer {
		t := p.registry.Snapshot().Topics.Get(topic)
		if t == nil {
			return forecast.Answer{}
		}
		a, err := of(ctx, t)
		if err != nil && !queue.IsPartial(err) {
			p.log.Debug("forecast", "topic", topic, "error", err)
		}
		return a
	}
}

// newDue returns what shows the jobs that fall due in /metrics.
func (p *parts) newDue(leads func() bool) *forecast.Due {
	d := &forecast.Due{Jobs: p.figures(), Snapshot: p.registry.Snapshot, Leads: leads, Logger: p.log}
	d.Register(p.metrics)
	return d
}
