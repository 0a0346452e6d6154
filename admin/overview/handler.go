// Package overview serves the first page: current problems, the load, the shards and processes at a glance, and the
// forecast. It also updates the strip of totals that every page shows.
package overview

import (
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/shards"
)

// Handler serves the pages of this package.
type Handler struct {
	*page.Base
	figures  *figures.Handler
	shards   *shards.Handler
	outlooks outlookCache

	mu   sync.Mutex
	last *overviewLive
}

// New returns a Handler.
func New(b *page.Base, f *figures.Handler, s *shards.Handler) *Handler {
	return &Handler{Base: b, figures: f, shards: s}
}

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.stripSource()
	h.overviewRoutes(g)
}
