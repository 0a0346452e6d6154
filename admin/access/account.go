package access

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
)

func (h *Handler) accountRoutes(g *echo.Group) {
	g.GET("/account", func(c echo.Context) error { return h.accountPage(c, http.StatusOK, nil) })
	h.Pages.FormsOf(g, "/account", "/account/password", "/account/totp/finish", "/account/totp/clear")
	g.POST("/account/password", h.changePassword)
	g.POST("/account/totp/begin", h.beginTOTP)
	g.POST("/account/totp/finish", h.finishTOTP)
	g.POST("/account/totp/clear", h.clearTOTP)
	g.POST("/account/sessions/:id/end", h.endOwnSession)
	g.POST("/account/sessions/end", h.endOtherSessions)
}

type accountData struct {
	Sessions []sessionLine
	Errors   map[string]string
	HasTOTP  bool
	Setup    *totpSetup
}

func (h *Handler) accountPage(c echo.Context, status int, wrong map[string]string) error {
	ctx := c.Request().Context()
	data := accountData{Errors: wrong}
	var err error
	if data.Sessions, err = h.listSessions(c, page.Viewer(c).Name); err != nil {
		return err
	}
	if data.HasTOTP, err = h.hasTOTP(ctx, page.Viewer(c).Name); err != nil {
		return err
	}
	if secret := h.Sessions.GetString(ctx, keyNewSecret); secret != "" && !data.HasTOTP {
		if data.Setup, err = setupOf(page.Viewer(c).Name, secret); err != nil {
			return err
		}
	}
	return h.Pages.Render(c, status, "account", data)
}

// mistake shows the page with a message at a field.
func (h *Handler) mistake(c echo.Context, field, message string) error {
	return h.accountPage(c, http.StatusUnprocessableEntity, map[string]string{field: message})
}

// confirmPassword checks the password again, with the rate limits of signing in. problem is empty if it is right.
func (h *Handler) confirmPassword(c echo.Context) (problem string, err error) {
	name := page.Viewer(c).Name
	if wait := h.waits(c, name); wait > 0 {
		return h.Texts.T(c, "login.wait", h.Texts.Words(c, wait)), nil
	}
	_, err = h.Accounts.CheckPassword(c.Request().Context(), name, c.FormValue("current"))
	if errors.Is(err, account.ErrNoUser) {
		return h.Texts.T(c, "account.wrong_current"), nil
	}
	if err == nil {
		h.attempts.Passed(name, c.RealIP())
	}
	return "", err
}

func (h *Handler) changePassword(c echo.Context) error {
	problem, err := h.confirmPassword(c)
	if err != nil {
		return err
	}
	if problem != "" {
		return h.mistake(c, "current", problem)
	}
	if c.FormValue("password") != c.FormValue("again") {
		return h.mistake(c, "again", h.Texts.T(c, "account.not_same"))
	}
	err = h.Accounts.SetPassword(c.Request().Context(), page.Actor(c), page.Viewer(c).Name, c.FormValue("password"))
	if err == nil {
		err = h.endSessions(c, func(s sessionLine) bool { return s.User == page.Viewer(c).Name && !s.Current })
	}
	if err != nil {
		fields, rest := h.Texts.FieldErrors(c, err)
		if rest != nil {
			return rest
		}
		return h.accountPage(c, http.StatusUnprocessableEntity, fields)
	}
	h.Flashes.Add(c, "success", "account.password_changed")
	return h.Pages.Redirect(c, "/account")
}

func (h *Handler) beginTOTP(c echo.Context) error {
	secret, err := newTOTP(page.Viewer(c).Name)
	if err != nil {
		return err
	}
	h.Sessions.Put(c.Request().Context(), keyNewSecret, secret)
	return h.Pages.Redirect(c, "/account#totp")
}

func (h *Handler) finishTOTP(c echo.Context) error {
	ctx := c.Request().Context()
	secret := h.Sessions.GetString(ctx, keyNewSecret)
	if secret == "" {
		return h.Pages.Redirect(c, "/account")
	}
	has, err := h.hasTOTP(ctx, page.Viewer(c).Name)
	if err != nil {
		return err
	}
	if has { // removing one requires the password, so replacing one without it is not allowed either
		return echo.NewHTTPError(http.StatusConflict, h.Texts.T(c, "account.totp_taken"))
	}
	ok, wait := h.codes.use(page.Viewer(c).Name, c.FormValue("code"), secret)
	if wait > 0 {
		return h.mistake(c, "code", h.Texts.T(c, "login.wait", h.Texts.Words(c, wait)))
	}
	if !ok {
		return h.mistake(c, "code", h.Texts.T(c, "login.wrong_code"))
	}
	if err := h.Accounts.SetTOTP(ctx, page.Actor(c), page.Viewer(c).Name, secret); err != nil {
		return err
	}
	h.Sessions.Remove(ctx, keyNewSecret)
	h.Flashes.Add(c, "success", "account.totp_on_now")
	return h.Pages.Redirect(c, "/account")
}

func (h *Handler) clearTOTP(c echo.Context) error {
	problem, err := h.confirmPassword(c)
	if err != nil {
		return err
	}
	if problem != "" {
		return h.mistake(c, "totp_current", problem)
	}
	return h.finish(c, h.Accounts.ClearTOTP(c.Request().Context(), page.Actor(c), page.Viewer(c).Name), "/account",
		"account.totp_off_now")
}

func (h *Handler) endOwnSession(c echo.Context) error {
	id, name := page.Param(c, "id"), page.Viewer(c).Name
	err := h.endSessions(c, func(s sessionLine) bool { return s.ID == id && s.User == name })
	return h.finish(c, err, "/account", "access.session_ended")
}

func (h *Handler) endOtherSessions(c echo.Context) error {
	name := page.Viewer(c).Name
	err := h.endSessions(c, func(s sessionLine) bool { return s.User == name && !s.Current })
	return h.finish(c, err, "/account", "account.others_ended")
}
