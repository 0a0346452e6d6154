package access

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/store"
)

// StreamUser returns the user of a request's session without extending the session: a stream must not keep it alive. It
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

// Sessions are the sessions of the admin's users.
type Sessions struct {
	*scs.SessionManager
	store *steadyStore
}

// NewSessions returns the sessions in a store, with cookies for the paths below basePath.
func NewSessions(store SessionStore, basePath string, log *slog.Logger, now func() time.Time) *Sessions {
	m, steady := scs.New(), newSteadyStore(store, now)
	m.Codec, m.Store = sessionCodec{}, steady
	m.HashTokenInStore = true
	m.Lifetime = sessionIdle // noteUse extends the session, so most requests write nothing
	m.Cookie.Name, m.Cookie.HttpOnly, m.Cookie.Path = sessionCookie, true, basePath+"/"
	m.Cookie.SameSite = http.SameSiteLaxMode // Strict would ask for the password again after each link in a mail
	m.ErrorFunc = func(w http.ResponseWriter, r *http.Request, err error) {
		log.Error("read or store the session", "path", r.URL.Path, "error", err)
		http.Error(w, "the registry's database is unavailable: "+http.StatusText(http.StatusServiceUnavailable),
			http.StatusServiceUnavailable)
	}
	return &Sessions{m, steady}
}

// Session loads the session for a request and stores its changes.
func (h *Handler) Session(next echo.HandlerFunc) echo.HandlerFunc {
	marked := next
	next = func(c echo.Context) error {
		page.SetSession(c)
		return marked(c)
	}
	plain := echo.WrapMiddleware(h.Sessions.LoadAndSave)(next)
	tls := *h.Sessions.SessionManager
	tls.Cookie.Secure = true
	secure := echo.WrapMiddleware(tls.LoadAndSave)(next)
	return func(c echo.Context) error {
		c.SetRequest(c.Request().WithContext(withOpened(c.Request().Context())))
		if h.Proxies.Secure(c) {
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
		page.SetViewer(c, u)
		c.SetRequest(c.Request().WithContext(store.By(ctx, page.Actor(c))))
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
	_, err := c.Cookie(sessionCookie)
	if hadSession := err == nil; hadSession && k.Action != "" {
		form := loginForm{Kept: h.Pages.SealKept(k), Error: h.Texts.T(c, "login.expired")}
		return h.showLogin(c, http.StatusUnauthorized, form)
	}
	if page.IsFragment(c) { // leaving the page would lose the input
		return echo.NewHTTPError(http.StatusUnauthorized, "")
	}
	if r.Method != http.MethodGet || r.URL.Path == h.Pages.BasePath+"/" {
		return h.Pages.Redirect(c, "/login")
	}
	return h.Pages.Redirect(c, "/login?next="+url.QueryEscape(r.URL.RequestURI()))
}
