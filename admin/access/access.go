// Package access is the pages about who may use the admin, and the sessions behind them: signing in, the own account,
// users, API tokens, sessions and the audit trail.
package access

import (
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/registry"
)

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	registry *registry.Registry
	accounts *account.Store
	store    *steadyStore
	users    *users
	attempts *loginLimit
	codes    *codes
}

// New makes a Handler and gives the base its sessions.
func New(b *page.Base, r *registry.Registry, accounts *account.Store, sessions SessionStore) *Handler {
	h := &Handler{
		Base: b, registry: r, accounts: accounts, store: newSteadyStore(sessions, b.Now), attempts: newLoginLimit(b.Now),
		users: &users{accounts: accounts, now: b.Now},
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
