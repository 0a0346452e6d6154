// Package overview is the first page: what is wrong, the load, the shards and processes at a glance, and the look
// ahead. It also keeps the strip of totals that every page shows.
package overview

import (
	"context"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Queue is what this room needs of the queue.
type Queue interface {
	Counts(ctx context.Context) (map[string]queue.Stats, error)
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	Forecast(ctx context.Context, topic string) (queue.Forecast, error)
}

// Alerts lists alerts; *alert.Store implements it.
type Alerts interface {
	ListAlerts(ctx context.Context, f alert.Filter) ([]alert.Alert, error)
}

// Options of a Handler.
type Options struct {
	Queue    Queue
	Registry *registry.Registry
	Master   shards.Master
	Alerts   Alerts
	// Lateness of the last minutes' callbacks at a share of them, such as 0.95; false: there were none.
	Lateness func(ctx context.Context, share float64) (time.Duration, bool)
	// Shares counts the jobs reserved lately by priority: high, normal, low.
	Shares    func(ctx context.Context) ([3]int64, error)
	Weights   [3]int // configured for them
	APIURL    string // of the server, for the line to copy
	TokenFile string // where the first API token lies, for the same line
}

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	Options
	figures  *figures.Handler
	shards   *shards.Handler
	outlooks outlookCache

	mu   sync.Mutex
	last *overviewLive
}

// New makes a Handler.
func New(b *page.Base, o Options, f *figures.Handler, s *shards.Handler) *Handler {
	return &Handler{Base: b, Options: o, figures: f, shards: s}
}

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.stripSource()
	h.overviewRoutes(g)
}
