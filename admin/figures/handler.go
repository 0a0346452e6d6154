// Package figures computes and draws what several pages of the admin show: charts of the history, the counts of all
// topics, and the capacity with which a forecast is compared.
package figures

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/alert/activity"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Options are what figures are computed from.
type Options struct {
	Pages    *page.Pages
	Texts    *page.Texts
	Registry Registry
	Queue    Queue
	History  History
	Activity Activity
	Alerts   Alerts
	Trail    Trail
	Log      *slog.Logger
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
}

// History reads the series of charts; *history.Reader implements it.
type History interface {
	Series(ctx context.Context, series, span string) (history.Points, error)
	Range(ctx context.Context, series string, from, to time.Time) (history.Points, error)
}

// Activity reads the recent attempts of a topic.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
}

// Alerts has the alerts of some time; *alert.Store implements it.
type Alerts interface {
	AlertsBetween(ctx context.Context, topic, shard string, from, to time.Time, most int) ([]alert.Alert, error)
}

// Trail is the audit trail; *registry.Registry implements it.
type Trail interface {
	Audit(ctx context.Context, f registry.AuditFilter) ([]registry.AuditEntry, error)
}

// Handler computes figures, and serves charts.
type Handler struct {
	Options
	readings readings

	vitalsMu sync.Mutex
	vitals   map[string]Vitals // by topic
}

// New returns a Handler.
func New(o Options) *Handler { return &Handler{Options: o} }
