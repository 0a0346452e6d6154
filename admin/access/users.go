package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
)

func (h *Handler) usersRoutes(g *echo.Group) {
	admin := func(do echo.HandlerFunc) echo.HandlerFunc { return page.Need(account.RoleAdmin, do) }
	g.GET("/access", admin(func(c echo.Context) error { return h.accessPage(c, http.StatusOK, accessForms{}) }))
	h.Pages.FormsOf(g, "/access", "/access/users", "/access/tokens")
	g.POST("/access/users", admin(h.createUser))
	g.POST("/access/users/:name/role", admin(h.setRole))
	g.POST("/access/users/:name/password", admin(h.setPassword))
	g.POST("/access/users/:name/totp", admin(h.changeOther(false, "access.totp_cleared", h.Accounts.ClearTOTP)))
	g.POST("/access/users/:name/delete", admin(h.changeOther(true, "access.user_deleted", h.Accounts.DeleteUser)))
	g.POST("/access/users/:name/disable", admin(h.changeOther(true, "access.user_disabled", h.setDisabled(true))))
	g.POST("/access/users/:name/enable", admin(h.changeOther(false, "access.user_enabled", h.setDisabled(false))))
	g.POST("/access/tokens", admin(h.createToken))
	g.GET("/access/tokens/:id", admin(h.tokenPage))
	g.POST("/access/tokens/:id/revoke", admin(h.revokeToken))
	g.POST("/access/tokens/:id/quotas", admin(h.setQuotas))
	g.POST("/access/sessions/:id/end", admin(h.endAnySession))
}

// accessForms are the forms as typed, with their errors.
type accessForms struct {
	User       map[string]string
	UserError  map[string]string
	Token      tokenForm
	TokenError map[string]string
}

type tokenForm struct {
	Name    string
	Rights  []string
	Topics  string
	Expires string
	Pushes  string // a second
	Waiting string // jobs
}

// Has reports whether a right is selected.
func (f tokenForm) Has(right string) bool { return slices.Contains(f.Rights, right) }

type accessData struct {
	Users    []userLine
	Tokens   []tokenLine
	Sessions []sessionLine
	Provider string // the identity provider's name; empty: there is none
	Others   []account.ProviderUser
	Roles    []account.Role
	Rights   []registry.Right
	accessForms
}

type userLine struct {
	account.User
	Self bool
	TOTP bool
}

type tokenLine struct {
	*registry.Token
	Expired bool
	UsedAt  time.Time // zero: never
	Used    *registry.Quotas
}

func (h *Handler) accessPage(c echo.Context, status int, forms accessForms) error {
	ctx := c.Request().Context()
	list, err := h.Accounts.ListUsers(ctx)
	if err != nil {
		return err
	}
	data := accessData{Roles: account.Roles, Rights: registry.Rights, accessForms: forms}
	if data.Tokens, err = h.tokens(ctx); err != nil {
		return err
	}
	for _, u := range list {
		line := userLine{User: u, Self: u.Name == page.Viewer(c).Name}
		if line.TOTP, err = h.hasTOTP(ctx, u.Name); err != nil {
			return err
		}
		data.Users = append(data.Users, line)
	}
	if data.Sessions, err = h.listSessions(c, ""); err != nil {
		return err
	}
	if h.SignIn != nil {
		data.Provider = h.SignIn.Label()
		if data.Others, err = h.Accounts.ListProviderUsers(ctx, h.SignIn.Issuer); err != nil {
			return err
		}
	}
	return h.Pages.Render(c, status, "access", data)
}

func (h *Handler) tokens(ctx context.Context) (lines []tokenLine, err error) {
	uses, err := h.Tokens.TokenUses(ctx)
	list, used := h.Tokens.ListTokens(), map[uint64]*registry.Quotas{}
	if h.Uses != nil {
		used = h.Uses(ctx, registry.WithQuotas(list))
	}
	for _, t := range list {
		lines = append(lines, tokenLine{t, t.Expired(h.Now()), uses[t.ID], used[t.ID]})
	}
	return lines, err
}

func (h *Handler) createUser(c echo.Context) error {
	form := map[string]string{"name": strings.TrimSpace(c.FormValue("name")), "role": c.FormValue("role")}
	err := h.Accounts.CreateUser(c.Request().Context(), page.Actor(c), form["name"], c.FormValue("password"),
		account.Role(form["role"]))
	if err == nil {
		h.Flashes.Add(c, "success", "access.user_created", form["name"])
		return h.Pages.Redirect(c, "/access")
	}
	fields, rest := h.Texts.FieldErrors(c, err)
	if rest != nil {
		return rest
	}
	return h.accessPage(c, http.StatusUnprocessableEntity, accessForms{User: form, UserError: fields})
}

// finish completes a change of a user or token: it shows the message, or the error if the user caused it, and redirects
// to the page.
func (h *Handler) finish(c echo.Context, err error, to, key string, args ...any) error {
	h.users.forget()
	if err == nil {
		h.Flashes.Add(c, "success", key, args...)
		return h.Pages.Redirect(c, to)
	}
	if p := page.ProblemOf(err); p.Status >= http.StatusInternalServerError {
		return err
	}
	h.Flashes.AddError(c, err)
	return h.Pages.Redirect(c, to)
}

func (h *Handler) setRole(c echo.Context) error {
	name := page.Param(c, "name")
	err := h.Accounts.SetRole(c.Request().Context(), page.Actor(c), name, account.Role(c.FormValue("role")))
	return h.finish(c, err, "/access", "access.role_set", name)
}

// setPassword also ends the user's sessions.
func (h *Handler) setPassword(c echo.Context) error {
	return h.changeOther(true, "access.password_set", func(ctx context.Context, actor, name string) error {
		return h.Accounts.SetPassword(ctx, actor, name, c.FormValue("password"))
	})(c)
}

// changeOther changes a user other than the current one, whose own password and second factor are changed on the
// account page, which requires the current password.
func (h *Handler) changeOther(
	endsSessions bool, done string, change func(ctx context.Context, actor, name string) error,
) echo.HandlerFunc {
	return func(c echo.Context) error {
		name := page.Param(c, "name")
		if name == page.Viewer(c).Name {
			h.Flashes.Add(c, "danger", "access.not_yourself")
			return h.Pages.Redirect(c, "/access")
		}
		err := change(c.Request().Context(), page.Actor(c), name)
		if err == nil && endsSessions {
			err = h.endSessions(c, func(s sessionLine) bool { return s.User == name })
		}
		return h.finish(c, err, "/access", done, name)
	}
}

func (h *Handler) setDisabled(disabled bool) func(ctx context.Context, actor, name string) error {
	return func(ctx context.Context, actor, name string) error {
		return h.Accounts.SetDisabled(ctx, actor, name, disabled)
	}
}

type createdToken struct {
	*registry.Token
	Secret string
}

const keyToken = "token/" // of a new token, followed by its number

// createToken creates a token and keeps it for the page that shows it once.
func (h *Handler) createToken(c echo.Context) error {
	params, err := c.FormParams()
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	form := tokenForm{strings.TrimSpace(c.FormValue("name")), params["rights"], c.FormValue("topics"),
		strings.TrimSpace(c.FormValue("expires_at")), c.FormValue("pushes_per_second"), c.FormValue("waiting_jobs")}
	expires, wrongExpiry := registry.ParseExpiry(form.Expires, h.Now())
	quotas, err := quotasOf(c)
	err = errors.Join(wrongExpiry, err)
	var secret string
	var t *registry.Token
	if err == nil {
		secret, t, err = h.Tokens.CreateToken(c.Request().Context(), page.Actor(c), form.Name,
			registry.RightsOf(form.Rights), page.Words(form.Topics), expires,
			func(t *registry.Token) { t.Quotas = quotas })
	}
	if err == nil {
		if err := h.Flashes.KeepSecret(c, fmt.Sprint(keyToken, t.ID), secret); err != nil {
			return err
		}
		return h.Pages.Redirect(c, h.Pages.Below("/access/tokens", t.ID))
	}
	fields, rest := h.Texts.FieldErrors(c, err)
	if rest != nil {
		return rest
	}
	return h.accessPage(c, http.StatusUnprocessableEntity, accessForms{Token: form, TokenError: fields})
}

// tokenPage shows a new token, once.
func (h *Handler) tokenPage(c echo.Context) error {
	secret := h.Flashes.TakeSecret(c, keyToken+page.Param(c, "id"))
	for _, t := range h.Tokens.ListTokens() {
		if secret != "" && fmt.Sprint(t.ID) == page.Param(c, "id") {
			return h.Pages.Render(c, http.StatusOK, "access_token", createdToken{t, secret})
		}
	}
	return h.Pages.Redirect(c, "/access")
}

// setQuotas stores the quotas of a token.
func (h *Handler) setQuotas(c echo.Context) error {
	id, ok := list.ID(page.Param(c, "id"))
	if !ok {
		return echo.ErrNotFound
	}
	q, err := quotasOf(c)
	if err == nil {
		err = h.Tokens.SetQuotas(c.Request().Context(), page.Actor(c), id, q)
	}
	return h.finish(c, err, "/access", "access.quota_saved")
}

// quotasOf reads the quotas of a form; an empty field or 0 sets no limit.
func quotasOf(c echo.Context) (*registry.Quotas, error) {
	var q registry.Quotas
	for field, n := range map[string]*int64{
		"pushes_per_second": &q.PushesPerSecond, "waiting_jobs": &q.WaitingJobs,
	} {
		text := strings.TrimSpace(c.FormValue(field))
		if text == "" {
			continue
		}
		var err error
		if *n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, page.FieldError("quotas."+field, "field.number", text)
		}
	}
	return &q, nil
}

func (h *Handler) revokeToken(c echo.Context) error {
	id, ok := list.ID(page.Param(c, "id"))
	if !ok {
		return echo.ErrNotFound
	}
	return h.finish(c, h.Tokens.RevokeToken(c.Request().Context(), page.Actor(c), id), "/access",
		"access.token_revoked")
}

func (h *Handler) endAnySession(c echo.Context) error {
	id := page.Param(c, "id")
	err := h.endSessions(c, func(s sessionLine) bool { return s.ID == id })
	return h.finish(c, err, "/access", "access.session_ended")
}
