package access

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
)

// StreamUser returns the user of a request's session without prolonging it, because a stream must not keep it alive. It
// is empty if the session is not valid.
func (h *Handler) StreamUser(c echo.Context) string {
	ctx := c.Request().Context()
	cookie, err := c.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	// The request's context has no session of its own, so loading gives a new one each time.
	ctx, err = h.Sessions.Load(ctx, cookie.Value)
	if err != nil {
		return ""
	}
	name := h.Sessions.GetString(ctx, keyUser)
	if name == "" {
		return ""
	}
	u, err := h.users.get(ctx, name)
	if err != nil || u == nil || h.outdated(ctx, u) {
		return ""
	}
	return name
}

// Keys of values in sessions.
const (
	keyUser  = "user"
	keySince = "since" // time of the sign-in, Unix seconds
)

const (
	sessionCookie = "wakecall_session"
	sessionLife   = 7 * 24 * time.Hour // from the sign-in
	sessionIdle   = 12 * time.Hour
)

func (h *Handler) newSessions() *scs.SessionManager {
	m := scs.New()
	m.Codec, m.Store = sessionCodec{}, h.store
	m.Lifetime, m.HashTokenInStore = sessionIdle, true // noteUse prolongs the session, so that most requests write nothing
	m.Cookie.Name, m.Cookie.HttpOnly, m.Cookie.Path = sessionCookie, true, h.BasePath+"/"
	m.Cookie.SameSite = http.SameSiteLaxMode // Strict would ask for the password again after each link in a mail
	m.ErrorFunc = func(w http.ResponseWriter, r *http.Request, err error) {
		h.Log.Error("read or store the session", "path", r.URL.Path, "error", err)
		http.Error(w, "the registry's database does not answer: "+http.StatusText(http.StatusServiceUnavailable),
			http.StatusServiceUnavailable)
	}
	return m
}

// Session loads the session for a request and stores its changes.
func (h *Handler) Session(next echo.HandlerFunc) echo.HandlerFunc {
	marked := next
	next = func(c echo.Context) error {
		c.Set(page.SessionKey, true)
		return marked(c)
	}
	plain := echo.WrapMiddleware(h.Sessions.LoadAndSave)(next)
	tls := *h.Sessions
	tls.Cookie.Secure = true
	secure := echo.WrapMiddleware(tls.LoadAndSave)(next)
	return func(c echo.Context) error {
		c.SetRequest(c.Request().WithContext(withOpened(c.Request().Context())))
		if h.Secure(c) {
			return secure(c)
		}
		return plain(c)
	}
}

// SignedIn lets only signed-in users pass, and stores the user in the request's context.
func (h *Handler) SignedIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		name := h.Sessions.GetString(ctx, keyUser)
		if name == "" {
			return h.toLogin(c)
		}
		u, err := h.users.get(ctx, name)
		if err != nil {
			return err
		}
		if u == nil || h.outdated(ctx, u) {
			if err := h.Sessions.Destroy(ctx); err != nil {
				return err
			}
			return h.toLogin(c)
		}
		c.Set(page.ViewerKey, u)
		h.noteUse(c)
		return next(c)
	}
}

// outdated reports whether a session belongs to an earlier user of the same name.
func (h *Handler) outdated(ctx context.Context, u *account.User) bool {
	return h.Sessions.GetInt64(ctx, keySince) < u.CreatedAt.Unix()
}

func (h *Handler) toLogin(c echo.Context) error {
	r := c.Request()
	k := page.Keep(c)
	if _, err := c.Cookie(sessionCookie); err == nil && k.Action != "" { // somebody without a cookie never had a session
		return h.Render(c, http.StatusUnauthorized, "login", loginForm{Kept: k, Error: h.T(c, "login.expired")})
	}
	if page.IsFragment(c) { // leaving the page would lose what is typed there
		return echo.NewHTTPError(http.StatusUnauthorized, "")
	}
	if r.Method != http.MethodGet || r.URL.Path == h.BasePath+"/" {
		return h.Redirect(c, "/login")
	}
	return h.Redirect(c, "/login?next="+url.QueryEscape(r.URL.RequestURI()))
}
