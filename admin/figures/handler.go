// Package figures is what several pages of the admin compute and draw: charts of the history, the counts of all topics,
// and the capacity against which a forecast goes.
package figures

import (
	"context"
	"sync"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Options of a Handler.
type Options struct {
	Queue interface {
		Counts(ctx context.Context) (map[string]queue.Stats, error)
		Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
		Totals(ctx context.Context, topics []string) (map[string]queue.TopicTotals, error)
	}
	Shards   interface{ ListShards() []registry.Shard }
	History  History
	Activity Activity
}

// History reads the series of charts; *history.Reader implements it.
type History interface {
	Series(ctx context.Context, series, span string) (history.Points, error)
}

// Activity reads the last attempts of a topic; *activity.Reader implements it.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
}

// Handler computes figures, and serves charts.
type Handler struct {
	*page.Base
	Options
	readings readings

	vitalsMu sync.Mutex
	vitals   map[string]Vitals // by topic
}

// New makes a Handler.
func New(b *page.Base, o Options) *Handler { return &Handler{Base: b, Options: o} }
