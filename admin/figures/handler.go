// Package figures computes and draws what several pages of the admin show: charts of the history, the counts of all
// topics, and forecasts.
package figures

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Options are what figures are computed from.
type Options struct {
	*page.Pages

	Registry Registry
	Queue    Queue
	History  History
	Activity Activity
	Alerts   AlertStore
	Refused  func(context.Context) (refusals.Streak, error) // the last refused pushes; nil: they are not shown
	Trail    Trail
}

// Registry has the topics and shards. Up reports whether its database is available.
type Registry interface {
	Snapshot() *registry.Snapshot
	ListShards() []registry.Shard
	Up() bool
}

// AlertStore lists alerts; *alert.Store implements it.
type AlertStore interface {
	ListAlerts(ctx context.Context, f alert.Filter) ([]alert.Alert, error)
}

// Queue counts jobs, and recent callbacks by bucket of lateness.
type Queue interface {
	Counts(ctx context.Context) (map[string]store.Stats, error)
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
	Totals(ctx context.Context, topics []string) (map[string]observe.TopicTotals, error)
	forecast.Queue
	LatenessOfAll(ctx context.Context, since time.Time) (map[int]int64, error)
}

// History reads the series of charts; *history.Reader implements it.
type History interface {
	Series(ctx context.Context, series, span string) (history.Points, error)
	Range(ctx context.Context, series string, from, to time.Time) (history.Points, error)
	All(ctx context.Context, topic string) ([]history.Points, error)
}

// Activity reads the recent attempts of topics, and their lateness.
type Activity interface {
	forecast.Activity
	Lateness(ctx context.Context, topics []string, since time.Time) (map[string]activity.Histogram, error)
}

// Trail is the audit trail; *registry.Registry implements it.
type Trail interface {
	Audit(ctx context.Context, f registry.AuditFilter) ([]registry.AuditEntry, error)
}

// Handler computes figures, and serves charts.
type Handler struct {
	Options
	readings  readings
	kept      kept
	late      late
	forecasts *forecast.Reader

	vitalsMu sync.Mutex
	vitals   map[string]Vitals // by topic
}

// New returns a Handler.
func New(o Options) *Handler {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Handler{Options: o, forecasts: &forecast.Reader{
		Queue: o.Queue, History: o.History, Activity: o.Activity, Snapshot: o.Registry.Snapshot,
	}}
}
