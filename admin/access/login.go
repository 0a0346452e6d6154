package access

import (
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (h *Handler) loginRoutes(g *echo.Group) {
	g.GET("/login", h.loginPage)
	h.Pages.FormsOf(g, "/login", "/login/code")
	g.POST("/login", h.login)
	g.POST("/login/code", h.loginCode)
	g.GET("/login/oidc", h.beginOIDC)
	g.GET("/login/oidc/callback", h.endOIDC)
	g.POST("/logout", h.logout)
}

type loginForm struct {
	Username string
	Next     string
	Error    string
	Kept     string // the form that was sent after the session had expired, see page.SealKept
	Provider string // the identity provider's name; empty: there is none
}

func (h *Handler) loginPage(c echo.Context) error {
	if h.Sessions.GetString(c.Request().Context(), keyUser) != "" {
		return h.Pages.Redirect(c, h.Pages.Local(c.QueryParam("next"), "/"))
	}
	return h.showLogin(c, http.StatusOK, loginForm{Next: c.QueryParam("next")})
}

const longestName = 64 // of a user's name: a longer one is cut before it is counted, logged and shown

// waits counts an attempt to sign in and returns how long the user must wait.
func (h *Handler) waits(c echo.Context, name string) time.Duration {
	last := ""
	if u, err := h.users.get(c.Request().Context(), name); err == nil && u != nil {
		last = u.Address
	}
	return h.attempts.Try(name, c.RealIP(), last)
}

func (h *Handler) login(c echo.Context) error {
	form := loginForm{
		Username: printable.Clip(c.FormValue("username"), longestName), Next: c.FormValue("next"),
		Kept: c.FormValue("kept"),
	}
	if wait := h.waits(c, form.Username); wait > 0 {
		form.Error = h.Texts.T(c, "login.wait", h.Texts.Words(c, wait))
		return h.showLogin(c, http.StatusTooManyRequests, form)
	}
	u, err := h.Accounts.CheckPassword(c.Request().Context(), form.Username, c.FormValue("password"))
	if errors.Is(err, account.ErrNoUser) {
		h.Log.Warn("sign-in failed", "user", form.Username, "address", c.RealIP())
		form.Error = h.Texts.T(c, "login.wrong")
		return h.showLogin(c, http.StatusUnauthorized, form)
	}
	if err != nil {
		return err
	}
	second, err := h.hasTOTP(c.Request().Context(), u.Name)
	if err != nil {
		return err
	}
	if second {
		return h.askCode(c, u, form)
	}
	h.attempts.Passed(form.Username, c.RealIP())
	return h.welcome(c, u, form)
}

// startSession starts the user's session under a new token, which prevents session fixation.
func (h *Handler) startSession(c echo.Context, u *account.User) error {
	ctx := c.Request().Context()
	if err := h.Sessions.RenewToken(ctx); err != nil {
		return err
	}
	h.Sessions.Remove(ctx, keyPending)
	h.Sessions.Put(ctx, keyUser, u.Name)
	h.Sessions.Put(ctx, keyOwn, rand.Text())
	h.Sessions.Put(ctx, keySince, h.Now().Unix())
	h.users.forget()
	return nil
}

// welcome starts the session of a local user, who returns to the page or the form for which they had to sign in.
func (h *Handler) welcome(c echo.Context, u *account.User, form loginForm) error {
	if err := h.startSession(c, u); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.Accounts.NoteSignIn(ctx, u.Name, c.RealIP()); err != nil {
		h.Log.Warn("record the sign-in", "user", u.Name, "error", err)
	}
	if kept := h.Pages.OpenKept(form.Kept); kept.Action != "" {
		page.SetViewer(c, u)
		return h.Pages.Render(c, http.StatusOK, "kept_form", kept)
	}
	return h.Pages.Redirect(c, h.Pages.Local(form.Next, "/"))
}

func (h *Handler) logout(c echo.Context) error {
	ctx := c.Request().Context()
	user, idToken := account.User{Name: h.Sessions.GetString(ctx, keyUser)}, h.Sessions.GetString(ctx, keyIDToken)
	if err := h.Sessions.Destroy(ctx); err != nil {
		return err
	}
	if h.SignIn != nil && user.ByProvider() {
		if address := h.SignIn.SignOutURL(ctx, idToken); address != "" {
			return h.signOutOIDC(c, address)
		}
	}
	return h.Pages.Redirect(c, "/login")
}
