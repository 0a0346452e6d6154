package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/registry"
)

// accessRegistry is what the page of users and tokens needs of the registry.
type accessRegistry interface {
	CreateUser(ctx context.Context, actor, name, password string, role account.Role) error
	SetPassword(ctx context.Context, actor, name, password string) error
	SetRole(ctx context.Context, actor, name string, role account.Role) error
	DeleteUser(ctx context.Context, actor, name string) error
	SetDisabled(ctx context.Context, actor, name string, disabled bool) error
	CreateToken(ctx context.Context, actor, name string, rights []registry.Right, topics []string) (string, *registry.Token, error)
	RevokeToken(ctx context.Context, actor string, id uint64) error
	ListTokens() []*registry.Token
}

func (a *Admin) accessRoutes(g *echo.Group) {
	admin := func(h echo.HandlerFunc) echo.HandlerFunc { return a.need(account.RoleAdmin, h) }
	g.GET("/access", admin(func(c echo.Context) error { return a.accessPage(c, http.StatusOK, accessForms{}) }))
	g.POST("/access/users", admin(a.createUser))
	g.POST("/access/users/:name/role", admin(a.setRole))
	g.POST("/access/users/:name/password", admin(a.setPassword))
	g.POST("/access/users/:name/totp", admin(a.clearTOTPOf))
	g.POST("/access/users/:name/delete", admin(a.deleteUser))
	g.POST("/access/users/:name/disable", admin(func(c echo.Context) error { return a.setDisabled(c, true) }))
	g.POST("/access/users/:name/enable", admin(func(c echo.Context) error { return a.setDisabled(c, false) }))
	g.POST("/access/tokens", admin(a.createToken))
	g.POST("/access/tokens/:id/revoke", admin(a.revokeToken))
	g.POST("/access/sessions/:id/end", admin(a.endAnySession))
}

// accessForms are the forms as somebody filled them in, with what is wrong.
type accessForms struct {
	User       map[string]string
	UserError  map[string]string
	Token      tokenForm
	TokenError map[string]string
}

type tokenForm struct {
	Name   string
	Rights []string
	Topics string
}

// Has says whether a right is chosen.
func (f tokenForm) Has(right string) bool { return slices.Contains(f.Rights, right) }

type accessData struct {
	Users    []userLine
	Tokens   []*registry.Token
	Sessions []sessionLine
	Roles    []account.Role
	Rights   []registry.Right
	TOTP     bool // it is offered
	accessForms
}

type userLine struct {
	account.User
	Self bool
	TOTP bool
}

var (
	roles  = []account.Role{account.RoleViewer, account.RoleOperator, account.RoleAdmin}
	rights = []registry.Right{registry.RightPush, registry.RightRead, registry.RightManage}
)

func (a *Admin) accessPage(c echo.Context, status int, forms accessForms) error {
	ctx := c.Request().Context()
	list, err := a.registry.ListUsers(ctx)
	if err != nil {
		return err
	}
	data := accessData{Tokens: a.registry.ListTokens(), Roles: roles, Rights: rights, TOTP: a.opts.TOTP != nil, accessForms: forms}
	for _, u := range list {
		line := userLine{User: u, Self: u.Name == viewer(c).Name}
		if line.TOTP, err = a.hasTOTP(ctx, u.Name); err != nil {
			return err
		}
		data.Users = append(data.Users, line)
	}
	if data.Sessions, err = a.listSessions(c, ""); err != nil {
		return err
	}
	return a.render(c, status, "access", data)
}

func (a *Admin) createUser(c echo.Context) error {
	form := map[string]string{"name": strings.TrimSpace(c.FormValue("name")), "role": c.FormValue("role")}
	err := a.registry.CreateUser(c.Request().Context(), actor(c), form["name"], c.FormValue("password"), account.Role(form["role"]))
	if err == nil {
		a.flash(c, "success", "access.user_created", form["name"])
		return a.redirect(c, "/access")
	}
	fields, rest := formErrors(err, "name")
	if rest != nil {
		return rest
	}
	return a.accessPage(c, http.StatusUnprocessableEntity, accessForms{User: form, UserError: fields})
}

// changed ends the change of a user or token: the message, or the error when it is one of the user's, and back to the page.
func (a *Admin) changed(c echo.Context, err error, to, key string, args ...any) error {
	a.users.forget()
	if err == nil {
		a.flash(c, "success", key, args...)
		return a.redirect(c, to)
	}
	if p := problemOf(err); p.Status >= http.StatusInternalServerError && !isRefusal(err) {
		return err
	}
	a.flashText(c, "danger", err.Error())
	return a.redirect(c, to)
}

func (a *Admin) setRole(c echo.Context) error {
	name := param(c, "name")
	err := a.registry.SetRole(c.Request().Context(), actor(c), name, account.Role(c.FormValue("role")))
	return a.changed(c, err, "/access", "access.role_set", name)
}

// setPassword also ends the user's sessions: whoever had the old one is out.
func (a *Admin) setPassword(c echo.Context) error {
	name := param(c, "name")
	ctx := c.Request().Context()
	err := a.registry.SetPassword(ctx, actor(c), name, c.FormValue("password"))
	if err == nil {
		err = a.endSessions(c, func(s sessionLine) bool { return s.User == name && !s.Current })
	}
	return a.changed(c, err, "/access", "access.password_set", name)
}

func (a *Admin) deleteUser(c echo.Context) error {
	name := param(c, "name")
	if name == viewer(c).Name {
		a.flash(c, "danger", "access.not_yourself")
		return a.redirect(c, "/access")
	}
	err := a.registry.DeleteUser(c.Request().Context(), actor(c), name)
	if err == nil {
		err = a.endSessions(c, func(s sessionLine) bool { return s.User == name })
	}
	return a.changed(c, err, "/access", "access.user_deleted", name)
}

// setDisabled keeps a user out at once: their sessions end.
func (a *Admin) setDisabled(c echo.Context, disabled bool) error {
	name, key := param(c, "name"), "access.user_enabled"
	if disabled {
		key = "access.user_disabled"
	}
	if name == viewer(c).Name {
		a.flash(c, "danger", "access.not_yourself")
		return a.redirect(c, "/access")
	}
	err := a.registry.SetDisabled(c.Request().Context(), actor(c), name, disabled)
	if err == nil && disabled {
		err = a.endSessions(c, func(s sessionLine) bool { return s.User == name })
	}
	return a.changed(c, err, "/access", key, name)
}

func (a *Admin) clearTOTPOf(c echo.Context) error {
	name := param(c, "name")
	if a.opts.TOTP == nil {
		return echo.ErrNotFound
	}
	return a.changed(c, a.opts.TOTP.ClearTOTP(c.Request().Context(), actor(c), name), "/access", "access.totp_cleared", name)
}

type createdToken struct {
	*registry.Token
	Secret string
}

// createToken answers with the token itself, the only time that it is shown; nothing of it is kept in the session.
func (a *Admin) createToken(c echo.Context) error {
	params, err := c.FormParams()
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	form := tokenForm{strings.TrimSpace(c.FormValue("name")), params["rights"], c.FormValue("topics")}
	chosen := make([]registry.Right, len(form.Rights))
	for i, r := range form.Rights {
		chosen[i] = registry.Right(r)
	}
	patterns := strings.FieldsFunc(form.Topics, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' })
	secret, t, err := a.registry.CreateToken(c.Request().Context(), actor(c), form.Name, chosen, patterns)
	if err == nil {
		return a.render(c, http.StatusOK, "access_token", createdToken{t, secret})
	}
	fields, rest := formErrors(err, "name")
	if rest != nil {
		return rest
	}
	return a.accessPage(c, http.StatusUnprocessableEntity, accessForms{Token: form, TokenError: fields})
}

func (a *Admin) revokeToken(c echo.Context) error {
	id, err := strconv.ParseUint(param(c, "id"), 10, 64)
	if err != nil {
		return echo.ErrNotFound
	}
	return a.changed(c, a.registry.RevokeToken(c.Request().Context(), actor(c), id), "/access", "access.token_revoked")
}

func (a *Admin) endAnySession(c echo.Context) error {
	id := param(c, "id")
	err := a.endSessions(c, func(s sessionLine) bool { return s.ID == id })
	return a.changed(c, err, "/access", "access.session_ended")
}
