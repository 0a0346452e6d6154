// Package jobs serves the pages about jobs: a single job, pushing, the dead letters, and bulk work with its tasks.
package jobs

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/bulk"
)

// Handler serves the pages of this package.
type Handler struct {
	*page.Base
	figures  *figures.Handler
	runner   *bulk.Runner
	patience time.Duration // for a page's search, and for counting before another request continues it
}

// New returns a Handler.
func New(b *page.Base, f *figures.Handler) *Handler {
	h := &Handler{Base: b, figures: f, patience: atOnce}
	h.runner = h.newRunner()
	return h
}

// Runner returns the runner of bulk tasks.
func (h *Handler) Runner() *bulk.Runner { return h.runner }

// SetPatience changes how long a page searches for matching jobs and counts them, for tests on slow machines.
func (h *Handler) SetPatience(d time.Duration) { h.patience = d }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.jobRoutes(g)
	h.matchingRoutes(g)
	h.pushRoutes(g)
	h.deadRoutes(g)
	h.tasksRoutes(g)
}
