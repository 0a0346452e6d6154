// Package figures computes and draws what several pages of the admin show: charts of the history, the counts of all
// topics, and forecasts.
package figures

import (
	"context"
	"sync"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/forecast"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Options are what figures are computed from.
type Options struct {
	Texts    *page.Texts
	Registry Registry
	Queue    Queue
	History  History
	Activity forecast.Activity
	Now      func() time.Time
}

// Registry has the topics and shards.
type Registry interface {
	Snapshot() *registry.Snapshot
	ListShards() []registry.Shard
}

// Queue counts jobs.
type Queue interface {
	Counts(ctx context.Context) (map[string]queue.Stats, error)
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	Totals(ctx context.Context, topics []string) (map[string]queue.TopicTotals, error)
	forecast.Queue
}

// History reads the series of charts; *history.Reader implements it.
type History interface {
	Series(ctx context.Context, series, span string) (history.Points, error)
}

// Handler computes figures, and serves charts.
type Handler struct {
	Options
	readings  readings
	forecasts *forecast.Reader

	vitalsMu sync.Mutex
	vitals   map[string]Vitals // by topic
}

// New returns a Handler.
func New(o Options) *Handler {
	return &Handler{Options: o, forecasts: &forecast.Reader{
		Queue: o.Queue, History: o.History, Activity: o.Activity, Snapshot: o.Registry.Snapshot,
	}}
}
