// Package access serves the pages about access to the admin, and manages its sessions: signing in, the user's own
// account, users, API tokens, sessions and the audit trail.
package access

import (
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/listen"
)

// Handler serves the pages of this package.
type Handler struct {
	*page.Base
	store    *steadyStore
	users    *users
	attempts *listen.LoginLimit
	codes    *codes
}

// New returns a Handler and sets the base's session manager.
func New(b *page.Base) *Handler {
	h := &Handler{
		Base: b, store: newSteadyStore(b.SessionStore, b.Now), attempts: listen.NewLoginLimit(b.Now),
		users: &users{accounts: b.Accounts, now: b.Now},
		codes: &codes{now: b.Now, last: map[string]int64{}},
	}
	b.Sessions = h.newSessions()
	return h
}

// OpenRoutes registers the pages that do not require signing in.
func (h *Handler) OpenRoutes(g *echo.Group) { h.loginRoutes(g) }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.usersRoutes(g)
	h.accountRoutes(g)
	g.GET("/audit", h.auditPage)
}
