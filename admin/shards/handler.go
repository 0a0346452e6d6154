// Package shards serves the pages about the infrastructure: the shards, their draining, and the processes.
package shards

import (
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
)

// Handler serves the pages of this package.
type Handler struct{ *page.Base }

// New returns a Handler.
func New(b *page.Base) *Handler { return &Handler{b} }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.shardsRoutes(g)
	h.processesRoutes(g)
}
