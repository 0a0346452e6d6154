package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/signin"
)

// attemptCookie holds a sign-in at the identity provider that has begun. The browser keeps it, sealed, because requests
// without a session must not write to the database.
const (
	attemptCookie = "wakecall_oidc"
	attemptPlace  = "sign-in attempt" // where the sealed text is valid
)

// keyIDToken is the session value with the ID token, by which the provider knows whose session to end.
const keyIDToken = "id_token"

const maxIDToken = 8 << 10 // bytes; browsers and providers refuse longer addresses anyway

// showLogin shows the sign-in page.
func (h *Handler) showLogin(c echo.Context, status int, form loginForm) error {
	if h.SignIn != nil {
		form.Provider = h.SignIn.Label()
	}
	return h.Pages.Render(c, status, "login", form)
}

// beginOIDC sends the browser to the identity provider.
func (h *Handler) beginOIDC(c echo.Context) error {
	next := h.Pages.Local(c.QueryParam("next"), "/")
	if h.SignIn == nil || h.Sessions.GetString(c.Request().Context(), keyUser) != "" {
		return h.Pages.Redirect(c, "/login")
	}
	address, attempt, err := h.SignIn.Begin(c.Request().Context(), next)
	if err != nil {
		return h.failOIDC(c, err)
	}
	sealed, err := h.sealAttempt(attempt)
	if err != nil {
		return err
	}
	h.setAttempt(c, sealed, attempt.Until)
	return c.Redirect(http.StatusSeeOther, address)
}

// endOIDC signs the user in whom the identity provider sends back.
func (h *Handler) endOIDC(c echo.Context) error {
	if h.SignIn == nil || h.Sessions.GetString(c.Request().Context(), keyUser) != "" {
		return h.Pages.Redirect(c, "/login")
	}
	attempt := h.takeAttempt(c)
	if attempt.State == "" || attempt.State != c.QueryParam("state") {
		return h.failOIDC(c, signin.ErrOtherBegun)
	}
	if wait := h.attempts.Try(oidcAccount, c.RealIP(), c.RealIP()); wait > 0 {
		return h.showLogin(c, http.StatusTooManyRequests,
			loginForm{Error: h.Texts.T(c, "login.wait", h.Texts.Words(c, wait))})
	}
	id, err := h.SignIn.Finish(c.Request().Context(), attempt, c.QueryParams())
	if err != nil {
		return h.failOIDC(c, err)
	}
	h.attempts.Passed(oidcAccount, c.RealIP())
	if id.Role == "" {
		return h.refuseOIDC(c, id)
	}
	return h.welcomeOIDC(c, id, attempt.Next)
}

// oidcAccount counts failed sign-ins by the provider. They are limited for each address alone, so that nobody can keep
// others out. No user has this name.
const oidcAccount = "oidc:"

func (h *Handler) welcomeOIDC(c echo.Context, id *signin.Identity, next string) error {
	ctx := c.Request().Context()
	u, err := h.Accounts.SignInByProvider(ctx, account.ProviderUser{
		Name: id.Name, Issuer: id.Issuer, Subject: id.Subject, Role: id.Role, RoleGroup: id.Group, Address: c.RealIP(),
	})
	if err != nil {
		return err
	}
	if err := h.startSession(c, u); err != nil {
		return err
	}
	if len(id.IDToken) <= maxIDToken {
		h.Sessions.Put(ctx, keyIDToken, id.IDToken)
	}
	return h.Pages.Redirect(c, h.Pages.Local(next, "/"))
}

// failOIDC shows the sign-in page, where local users can still sign in, with what went wrong. The log has the details.
func (h *Handler) failOIDC(c echo.Context, err error) error {
	status, text := http.StatusForbidden, "login.oidc_invalid"
	switch {
	case errors.Is(err, signin.ErrUnreachable):
		status, text = http.StatusServiceUnavailable, "login.oidc_down"
	case errors.Is(err, signin.ErrRefused):
		text = "login.oidc_refused"
	case errors.Is(err, signin.ErrOtherBegun):
		status, text = http.StatusBadRequest, "login.oidc_other"
	}
	h.Log.Warn("sign-in by the identity provider failed", "address", c.RealIP(),
		"error", printable.Clip(printable.Error(err), maxLogged))
	return h.showLogin(c, status, loginForm{Error: h.Texts.T(c, text, h.SignIn.Label())})
}

const maxLogged = 500 // characters of an error, which may contain an answer of the provider

// refusedIdentity is the page for a user who has no role.
type refusedIdentity struct {
	*signin.Identity
	Provider   string
	Claim      string
	Expected   []roleGroups
	SignOutURL string // at the provider; empty: it has none
}

type roleGroups struct {
	Role   account.Role
	Groups string
}

func (h *Handler) refuseOIDC(c echo.Context, id *signin.Identity) error {
	const most = 20 // groups to show and to log
	id.Groups = id.Groups[:min(len(id.Groups), most)]
	h.Log.Warn("sign-in refused: no group of the user has a role", "user", printable.Clip(id.Name, longestName),
		"groups", printable.Clip(strings.Join(id.Groups, ", "), maxLogged), "address", c.RealIP())
	page := refusedIdentity{
		Identity: id, Provider: h.SignIn.Label(), Claim: h.SignIn.GroupsClaim,
		SignOutURL: h.SignIn.SignOutURL(c.Request().Context(), id.IDToken),
	}
	for _, role := range account.Roles {
		if groups := h.SignIn.Roles[role]; len(groups) > 0 {
			page.Expected = append(page.Expected, roleGroups{role, strings.Join(groups, ", ")})
		}
	}
	return h.Pages.Render(c, http.StatusForbidden, "login_refused", page)
}

// signOutOIDC shows a page that leads to the provider's log-out. A redirect would not do: browsers apply form-action,
// which allows no other site, to the redirects of a form.
func (h *Handler) signOutOIDC(c echo.Context, address string) error {
	c.Response().Header().Set("Refresh", "0; url="+address)
	return h.Pages.Render(c, http.StatusOK, "logout", struct{ Provider, Address string }{h.SignIn.Label(), address})
}

func (h *Handler) sealAttempt(a signin.Attempt) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	sealed, err := h.Pages.Key.Seal(attemptPlace, string(text))
	return base64.RawURLEncoding.EncodeToString([]byte(sealed)), err
}

// takeAttempt returns the sign-in that this browser has begun, and ends it: another try begins anew.
func (h *Handler) takeAttempt(c echo.Context) (a signin.Attempt) {
	cookie, err := c.Cookie(attemptCookie)
	if err != nil {
		return a
	}
	h.setAttempt(c, "", time.Unix(1, 0))
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return a
	}
	text, err := h.Pages.Key.Open(attemptPlace, string(sealed))
	if err != nil || json.Unmarshal([]byte(text), &a) != nil {
		return signin.Attempt{}
	}
	return a
}

func (h *Handler) setAttempt(c echo.Context, value string, until time.Time) {
	c.SetCookie(&http.Cookie{
		Name: attemptCookie, Value: value, Path: h.Pages.BasePath + "/login/oidc", Expires: until, HttpOnly: true,
		Secure:   h.Proxies.Secure(c),
		SameSite: http.SameSiteLaxMode, // Strict would leave it out when the provider sends the browser back
	})
}
