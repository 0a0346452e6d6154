// Package topics serves the pages about topics: the list, one topic with its tabs, the form, the test callback, and
// topic files.
package topics

import (
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/page"
)

// Handler serves the pages of this package.
type Handler struct {
	*page.Base
	figures *figures.Handler
	jobs    *jobs.Handler
}

// New returns a Handler.
func New(b *page.Base, f *figures.Handler, j *jobs.Handler) *Handler {
	return &Handler{Base: b, figures: f, jobs: j}
}

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.topicsRoutes(g)
	h.topicRoutes(g)
}
