// Package schedules serves the pages about schedules: the list with the week, one schedule, its form, and backfills.
package schedules

import (
	"context"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Options are what the pages of this package need.
type Options struct {
	*page.Pages

	Hub       *live.Hub
	Registry  Registry
	Schedules Schedules

	MaxBody int // of an occurrence, in bytes
}

// Registry has the definitions, and stores the audit trail; *registry.Registry implements it.
type Registry interface {
	page.Registry
	Up() bool
	Change(
		ctx context.Context, actor, action, object string, do func(tx *gorm.DB, c *registry.Changed) error,
	) error
}

// Schedules reads and changes schedules; *recurring.Schedules implements it.
type Schedules interface {
	Get(ctx context.Context, name string) (*recurring.View, error)
	States(ctx context.Context, list []*registry.Schedule) []recurring.View
	Put(
		ctx context.Context, actor string, def registry.Schedule, may func(was *registry.Schedule) error,
	) (stored *registry.Schedule, created bool, err error)
	Delete(ctx context.Context, actor, name string) error
	Pause(ctx context.Context, actor, name string, until time.Time) (*registry.Schedule, error)
	Resume(ctx context.Context, actor, name string, catchUp bool) (*registry.Schedule, error)
	Run(ctx context.Context, name string) (*store.Job, error)
	Backfill(ctx context.Context, name string, b recurring.Backfill) (*recurring.Backfilled, error)
}

// Handler serves the pages of this package.
type Handler struct{ Options }

// New returns a Handler.
func New(o Options) *Handler { return &Handler{o} }

// Routes registers the pages. No schedule is named "-", so these routes hide none.
func (h *Handler) Routes(g *echo.Group) {
	operator := func(do named) echo.HandlerFunc { return page.Need(account.RoleOperator, h.named(do)) }
	admin := func(do named) echo.HandlerFunc { return page.Need(account.RoleAdmin, h.named(do)) }
	h.listRoutes(g)
	g.GET("/schedules/-/new", page.Need(account.RoleAdmin, h.newPage))
	g.POST("/schedules/-/new", page.Need(account.RoleAdmin, h.create))
	g.POST("/schedules/-/preview", page.Need(account.RoleAdmin, h.preview))
	g.GET("/schedules/:schedule", h.named(h.schedulePage))
	g.GET("/schedules/:schedule/edit", admin(h.editPage))
	g.POST("/schedules/:schedule/edit", admin(h.save))
	g.POST("/schedules/:schedule/delete", admin(h.remove))
	g.POST("/schedules/:schedule/pause", operator(h.pause))
	g.POST("/schedules/:schedule/resume", operator(h.resume))
	g.POST("/schedules/:schedule/run", operator(h.run))
	g.GET("/schedules/:schedule/backfill", operator(h.backfillPage))
	g.POST("/schedules/:schedule/backfill", operator(h.backfill))
	live := func(ctx context.Context, name string) (any, error) { return h.view(ctx, name) }
	h.Hub.Register("schedule", scheduleEvery, "partials/schedule_live", live)
}

type named = func(c echo.Context, s *registry.Schedule) error

// named wraps a handler for the schedule that the path names.
func (h *Handler) named(do named) echo.HandlerFunc {
	return func(c echo.Context) error {
		name := page.Param(c, "schedule")
		s := h.Registry.Snapshot().Schedules.Get(name)
		if s == nil {
			return fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
		}
		return do(c, s)
	}
}
