// Package overview serves the first page: current problems, the load, the shards and processes at a glance, and the
// forecast. It also updates the strip of totals that every page shows.
package overview

import (
	"context"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master"
)

// Options are what the pages of this package need.
type Options struct {
	*page.Pages

	Hub      *live.Hub
	Figures  *figures.Handler
	Shards   Shards
	Registry Registry
	Queue    Queue
	Master   Master
	Relays   func(context.Context) ([]relays.Relay, error) // nil: not shown

	APIURL    string // the server's address, for command lines to copy: http://127.0.0.1:6789
	TokenFile string // file of the first API token, for the same lines
	Weights   [3]int // configured weights of the priorities
}

// Shards has the shards and their health.
type Shards interface {
	ShardViews(ctx context.Context) []*shards.ShardView
}

// Registry has the topics.
type Registry interface {
	Snapshot() *registry.Snapshot
	Up() bool
}

// Queue counts the recently reserved jobs by priority (high, normal, low).
type Queue interface {
	ReserveCounts(ctx context.Context, since time.Time) ([3]int64, error)
}

// Master lists the processes.
type Master interface {
	Ps(ctx context.Context) (*master.Tree, error)
}

// Handler serves the pages of this package.
type Handler struct {
	Options
	outlooks outlookCache
	trends   trends

	mu   sync.Mutex
	last *overviewLive
}

// New returns a Handler.
func New(o Options) *Handler { return &Handler{Options: o} }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.stripSource()
	h.overviewRoutes(g)
}
