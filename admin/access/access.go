// Package access is the pages about who may use the admin, and the sessions behind them: signing in, the own account,
// users, API tokens, sessions and the audit trail.
package access

import (
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
)

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	store    *steadyStore
	users    *users
	attempts *loginLimit
	codes    *codes
}

// New makes a Handler and gives the base its sessions.
func New(b *page.Base) *Handler {
	h := &Handler{
		Base: b, store: newSteadyStore(b.SessionStore, b.Now), attempts: newLoginLimit(b.Now),
		users: &users{accounts: b.Accounts, now: b.Now},
		codes: &codes{now: b.Now, last: map[string]int64{}},
	}
	b.Sessions = h.newSessions()
	return h
}

// OpenRoutes registers what anybody may ask for.
func (h *Handler) OpenRoutes(g *echo.Group) { h.loginRoutes(g) }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.usersRoutes(g)
	h.accountRoutes(g)
	g.GET("/audit", h.auditPage)
}
