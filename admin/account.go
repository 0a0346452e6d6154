package admin

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
)

func (a *Admin) accountRoutes(g *echo.Group) {
	g.GET("/account", func(c echo.Context) error { return a.accountPage(c, http.StatusOK, nil) })
	g.POST("/account/password", a.changePassword)
	g.POST("/account/totp/begin", a.beginTOTP)
	g.POST("/account/totp/finish", a.finishTOTP)
	g.POST("/account/totp/clear", a.clearTOTP)
	g.POST("/account/sessions/:id/end", a.endOwnSession)
	g.POST("/account/sessions/end", a.endOtherSessions)
}

type accountData struct {
	Sessions []sessionLine
	Errors   map[string]string
	Offered  bool // second factors are
	HasTOTP  bool
	Setup    *totpSetup
}

func (a *Admin) accountPage(c echo.Context, status int, wrong map[string]string) error {
	ctx := c.Request().Context()
	data := accountData{Errors: wrong, Offered: a.opts.TOTP != nil}
	var err error
	if data.Sessions, err = a.listSessions(c, viewer(c).Name); err != nil {
		return err
	}
	if data.HasTOTP, err = a.hasTOTP(ctx, viewer(c).Name); err != nil {
		return err
	}
	if secret := a.sessions.GetString(ctx, keyNewSecret); secret != "" && data.Offered && !data.HasTOTP {
		if data.Setup, err = setupOf(viewer(c).Name, secret); err != nil {
			return err
		}
	}
	return a.render(c, status, "account", data)
}

// confirmPassword asks for the password again, as slowly for guesses as signing in. problem is empty when it is right.
func (a *Admin) confirmPassword(c echo.Context) (problem string, err error) {
	name := viewer(c).Name
	if wait := a.attempts.try(name, c.RealIP()); wait > 0 {
		return a.t(c, "login.wait", duration(wait)), nil
	}
	_, err = a.registry.CheckPassword(c.Request().Context(), name, c.FormValue("current"))
	if errors.Is(err, account.ErrNoUser) {
		return a.t(c, "account.wrong_current"), nil
	}
	if err == nil {
		a.attempts.passed(name, c.RealIP())
	}
	return "", err
}

func (a *Admin) changePassword(c echo.Context) error {
	problem, err := a.confirmPassword(c)
	if err != nil {
		return err
	}
	if problem != "" {
		return a.accountPage(c, http.StatusUnprocessableEntity, map[string]string{"current": problem})
	}
	if c.FormValue("password") != c.FormValue("again") {
		return a.accountPage(c, http.StatusUnprocessableEntity, map[string]string{"again": a.t(c, "account.not_same")})
	}
	err = a.registry.SetPassword(c.Request().Context(), actor(c), viewer(c).Name, c.FormValue("password"))
	if err == nil {
		err = a.endSessions(c, func(s sessionLine) bool { return s.User == viewer(c).Name && !s.Current })
	}
	if err != nil {
		fields, rest := formErrors(err, "password")
		if rest != nil {
			return rest
		}
		return a.accountPage(c, http.StatusUnprocessableEntity, fields)
	}
	a.flash(c, "success", "account.password_changed")
	return a.redirect(c, "/account")
}

func (a *Admin) beginTOTP(c echo.Context) error {
	if a.opts.TOTP == nil {
		return echo.ErrNotFound
	}
	secret, err := newTOTP(viewer(c).Name)
	if err != nil {
		return err
	}
	a.sessions.Put(c.Request().Context(), keyNewSecret, secret)
	return a.redirect(c, "/account#totp")
}

func (a *Admin) finishTOTP(c echo.Context) error {
	ctx := c.Request().Context()
	secret := a.sessions.GetString(ctx, keyNewSecret)
	if secret == "" || a.opts.TOTP == nil {
		return a.redirect(c, "/account")
	}
	has, err := a.hasTOTP(ctx, viewer(c).Name)
	if err != nil {
		return err
	}
	if has { // taking one off asks for the password, so nobody may replace one without it
		return echo.NewHTTPError(http.StatusConflict, a.t(c, "account.totp_taken"))
	}
	if !a.codes.use(viewer(c).Name, c.FormValue("code"), secret) {
		return a.accountPage(c, http.StatusUnprocessableEntity, map[string]string{"code": a.t(c, "login.wrong_code")})
	}
	if err := a.opts.TOTP.SetTOTP(ctx, actor(c), viewer(c).Name, secret); err != nil {
		return err
	}
	a.sessions.Remove(ctx, keyNewSecret)
	a.flash(c, "success", "account.totp_on_now")
	return a.redirect(c, "/account")
}

func (a *Admin) clearTOTP(c echo.Context) error {
	if a.opts.TOTP == nil {
		return echo.ErrNotFound
	}
	problem, err := a.confirmPassword(c)
	if err != nil {
		return err
	}
	if problem != "" {
		return a.accountPage(c, http.StatusUnprocessableEntity, map[string]string{"totp_current": problem})
	}
	return a.changed(c, a.opts.TOTP.ClearTOTP(c.Request().Context(), actor(c), viewer(c).Name), "/account", "account.totp_off_now")
}

func (a *Admin) endOwnSession(c echo.Context) error {
	id, name := param(c, "id"), viewer(c).Name
	err := a.endSessions(c, func(s sessionLine) bool { return s.ID == id && s.User == name })
	return a.changed(c, err, "/account", "access.session_ended")
}

func (a *Admin) endOtherSessions(c echo.Context) error {
	name := viewer(c).Name
	err := a.endSessions(c, func(s sessionLine) bool { return s.User == name && !s.Current })
	return a.changed(c, err, "/account", "account.others_ended")
}
