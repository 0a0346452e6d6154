package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
)

// What sessions hold.
const (
	keyUser    = "user"
	keySince   = "since" // of the sign-in, Unix seconds
	keyFlashes = "flashes"
)

const (
	sessionCookie = "wakecall_session"
	sessionLife   = 7 * 24 * time.Hour
	sessionIdle   = 12 * time.Hour
)

func (a *Admin) newSessions() *scs.SessionManager {
	m := scs.New()
	m.Codec, m.Store = sessionCodec{}, a.store
	m.Lifetime, m.IdleTimeout, m.HashTokenInStore = sessionLife, sessionIdle, true
	m.Cookie.Name, m.Cookie.HttpOnly, m.Cookie.Path = sessionCookie, true, a.base+"/"
	m.Cookie.SameSite = http.SameSiteLaxMode // Strict would ask for a password again behind each link of a mail
	m.ErrorFunc = func(w http.ResponseWriter, r *http.Request, err error) {
		a.log.Error("the session cannot be read or kept", "path", r.URL.Path, "error", err)
		http.Error(w, "the registry's database does not answer: "+http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
	}
	return m
}

// session opens the session for a request and keeps what became of it.
func (a *Admin) session(next echo.HandlerFunc) echo.HandlerFunc {
	marked := next
	next = func(c echo.Context) error {
		c.Set(sessionKey, true)
		return marked(c)
	}
	plain := echo.WrapMiddleware(a.sessions.LoadAndSave)(next)
	tls := *a.sessions
	tls.Cookie.Secure = true
	secure := echo.WrapMiddleware(tls.LoadAndSave)(next)
	return func(c echo.Context) error {
		c.SetRequest(c.Request().WithContext(withOpened(c.Request().Context())))
		if a.secure(c) {
			return secure(c)
		}
		return plain(c)
	}
}

// sessionKey marks requests that have a session; addresses outside of the base path have none.
const sessionKey = "session"

const viewerKey = "viewer"

// viewer is who asks, nil before signing in.
func viewer(c echo.Context) *account.User {
	u, _ := c.Get(viewerKey).(*account.User)
	return u
}

// actor is who asks, as the audit trail names users.
func actor(c echo.Context) string {
	if u := viewer(c); u != nil {
		return "user/" + u.Name
	}
	return "nobody"
}

// signedIn lets only users in, and knows who it is.
func (a *Admin) signedIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		name := a.sessions.GetString(ctx, keyUser)
		if name == "" {
			return a.toLogin(c)
		}
		u, err := a.users.get(ctx, name)
		if err != nil {
			return err
		}
		if u == nil || a.outdated(ctx, u) {
			if err := a.sessions.Destroy(ctx); err != nil {
				return err
			}
			return a.toLogin(c)
		}
		c.Set(viewerKey, u)
		a.note(c)
		return next(c)
	}
}

// outdated says whether a session belongs to an earlier user of the same name.
func (a *Admin) outdated(ctx context.Context, u *account.User) bool {
	return a.sessions.GetInt64(ctx, keySince) < u.CreatedAt.Unix()
}

func (a *Admin) toLogin(c echo.Context) error {
	r := c.Request()
	if r.Method != http.MethodGet || isFragment(c) || r.URL.Path == a.base+"/" {
		return a.redirect(c, "/login")
	}
	return a.redirect(c, "/login?next="+url.QueryEscape(r.URL.RequestURI()))
}

var rank = map[account.Role]int{account.RoleViewer: 1, account.RoleOperator: 2, account.RoleAdmin: 3}

func reaches(have, want account.Role) bool { return rank[have] > 0 && rank[have] >= rank[want] }

// need wraps a handler that not every user may call.
func (a *Admin) need(role account.Role, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if u := viewer(c); u == nil || !reaches(u.Role, role) {
			return echo.NewHTTPError(http.StatusForbidden, a.t(c, "common.needs_role", a.t(c, "common.role_"+string(role))))
		}
		return h(c)
	}
}
