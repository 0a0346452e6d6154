// Package access is the pages about who may use the admin, and the sessions behind them: signing in, the own account,
// users, API tokens, sessions and the audit trail.
package access

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/registry"
)

// Registry is what this room needs of the registry.
type Registry interface {
	Users
	Tokens
	Audit(ctx context.Context, f registry.AuditFilter) ([]registry.AuditEntry, error)
}

// Users are the users of the admin.
type Users interface {
	CheckPassword(ctx context.Context, name, password string) (*account.User, error)
	ListUsers(ctx context.Context) ([]account.User, error)
	NoteSignIn(ctx context.Context, name, address string) error
	CreateUser(ctx context.Context, actor, name, password string, role account.Role) error
	SetPassword(ctx context.Context, actor, name, password string) error
	SetRole(ctx context.Context, actor, name string, role account.Role) error
	DeleteUser(ctx context.Context, actor, name string) error
	SetDisabled(ctx context.Context, actor, name string, disabled bool) error
	TOTPSecret(ctx context.Context, name string) (string, error) // empty: the user has no second factor
	SetTOTP(ctx context.Context, actor, name, secret string) error
	ClearTOTP(ctx context.Context, actor, name string) error
}

// Tokens are the tokens of the API.
type Tokens interface {
	CreateToken(ctx context.Context, actor, name string, rights []registry.Right, topics []string,
		expires *time.Time) (string, *registry.Token, error)
	RevokeToken(ctx context.Context, actor string, id uint64) error
	ListTokens() []*registry.Token
	TokenUses(ctx context.Context) (map[uint64]time.Time, error)
}

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	registry Registry
	store    *steadyStore
	users    *users
	attempts *loginLimit
	codes    *codes
}

// New makes a Handler and gives the base its sessions.
func New(b *page.Base, r Registry, sessions SessionStore) *Handler {
	h := &Handler{
		Base: b, registry: r, store: newSteadyStore(sessions, b.Now), attempts: newLoginLimit(b.Now),
		users: &users{registry: r, now: b.Now, known: map[string]knownUser{}},
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
