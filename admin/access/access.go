// Package access serves the pages about access to the admin, and manages its sessions: signing in, the user's own
// account, users, API tokens, sessions and the audit trail.
package access

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/signin"
)

// Options are what the pages of this package need.
type Options struct {
	*page.Pages

	Sessions *Sessions
	Accounts *account.Store
	Tokens   Tokens
	Audit    Audit
	Uses     registry.QuotaUse // nil: not shown
	Proxies  page.Proxies
	SignIn   *signin.Provider // nil: only local users can sign in
}

// Tokens has the API tokens.
type Tokens interface {
	ListTokens() []*registry.Token
	TokenUses(ctx context.Context) (map[uint64]time.Time, error)
	CreateToken(
		ctx context.Context, actor, name string, rights []registry.Right, topics []string, expires *time.Time,
		with ...func(*registry.Token),
	) (secret string, t *registry.Token, err error)
	SetQuotas(ctx context.Context, actor string, id uint64, q *registry.Quotas) error
	RevokeToken(ctx context.Context, actor string, id uint64) error
}

// Audit has the audit trail.
type Audit interface {
	Audit(ctx context.Context, f registry.AuditFilter) ([]registry.AuditEntry, error)
}

// Handler serves the pages of this package.
type Handler struct {
	Options
	users    *users
	attempts *listen.LoginLimit
	codes    *codes
}

// New returns a Handler.
func New(o Options) *Handler {
	return &Handler{
		Options: o, attempts: listen.NewLoginLimit(o.Now), codes: newCodes(o.Now),
		users: &users{accounts: o.Accounts, now: o.Now, issuer: issuerOf(o.SignIn)},
	}
}

func issuerOf(p *signin.Provider) string {
	if p == nil {
		return ""
	}
	return p.Issuer
}

// OpenRoutes registers the pages that do not require signing in.
func (h *Handler) OpenRoutes(g *echo.Group) { h.loginRoutes(g) }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.usersRoutes(g)
	h.accountRoutes(g)
	g.GET("/audit", h.auditPage)
}
