package admin

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
)

func (a *Admin) loginRoutes(g *echo.Group) {
	g.GET("/login", a.loginPage)
	g.POST("/login", a.login)
	g.POST("/login/code", a.loginCode)
	g.POST("/logout", a.logout)
}

type loginForm struct {
	Username string
	Next     string
	Error    string
}

func (a *Admin) loginPage(c echo.Context) error {
	if a.sessions.GetString(c.Request().Context(), keyUser) != "" {
		return a.redirect(c, a.local(c.QueryParam("next"), "/"))
	}
	return a.render(c, http.StatusOK, "login", loginForm{Next: c.QueryParam("next")})
}

const longestName = 64 // of a user

// typedName bounds what anybody may have counted, logged and shown as a user's name. What is cut is nobody's.
func typedName(name string) string {
	if len(name) <= longestName {
		return name
	}
	return strings.ToValidUTF8(name[:longestName], "") + "…"
}

func (a *Admin) login(c echo.Context) error {
	form := loginForm{Username: typedName(c.FormValue("username")), Next: c.FormValue("next")}
	if wait := a.attempts.try(form.Username, c.RealIP()); wait > 0 {
		form.Error = a.t(c, "login.wait", duration(wait.Round(time.Second)))
		return a.render(c, http.StatusTooManyRequests, "login", form)
	}
	u, err := a.registry.CheckPassword(c.Request().Context(), form.Username, c.FormValue("password"))
	if errors.Is(err, account.ErrNoUser) {
		a.log.Warn("a sign-in failed", "user", form.Username, "address", c.RealIP())
		form.Error = a.t(c, "login.wrong")
		return a.render(c, http.StatusUnauthorized, "login", form)
	}
	if err != nil {
		return err
	}
	second, err := a.hasTOTP(c.Request().Context(), u.Name)
	if err != nil {
		return err
	}
	if second {
		return a.askCode(c, u, form.Next)
	}
	a.attempts.passed(form.Username, c.RealIP())
	return a.enter(c, u, form.Next)
}

// enter begins the user's session, under a new token: one that somebody planted before is worth nothing.
func (a *Admin) enter(c echo.Context, u *account.User, next string) error {
	ctx := c.Request().Context()
	if err := a.sessions.RenewToken(ctx); err != nil {
		return err
	}
	a.sessions.Remove(ctx, keyPending)
	a.sessions.Put(ctx, keyUser, u.Name)
	a.sessions.Put(ctx, keyOwn, rand.Text())
	a.sessions.Put(ctx, keySince, a.opts.Now().Unix())
	a.users.forget()
	if err := a.registry.NoteSignIn(ctx, u.Name, c.RealIP()); err != nil {
		a.log.Warn("a sign-in could not be noted", "user", u.Name, "error", err)
	}
	return a.redirect(c, a.local(next, "/"))
}

func (a *Admin) logout(c echo.Context) error {
	if err := a.sessions.Destroy(c.Request().Context()); err != nil {
		return err
	}
	return a.redirect(c, "/login")
}
