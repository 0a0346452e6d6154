package access

import (
	"bytes"
	"context"
	"encoding/base64"
	"html/template"
	"image/png"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
	"github.com/wakecall/wakecall/internal/account"
)

// Keys of session values between the password and the second factor.
const (
	keyPending      = "pending" // the user who gave the password but not yet the code
	keyPendingSince = "pending_since"
	keyNewSecret    = "new_totp" // secret of an authenticator that is being set up
)

const pendingLife = 5 * time.Minute

func (h *Handler) hasTOTP(ctx context.Context, user string) (bool, error) {
	secret, err := h.Accounts.TOTPSecret(ctx, user)
	return secret != "", err
}

// askCode stores in the session that the password was right. It renews the session's token, which prevents session
// fixation.
func (h *Handler) askCode(c echo.Context, u *account.User, form loginForm) error {
	ctx := c.Request().Context()
	if err := h.Sessions.RenewToken(ctx); err != nil {
		return err
	}
	h.Sessions.Put(ctx, keyPending, u.Name)
	h.Sessions.Put(ctx, keyPendingSince, h.Now().Unix())
	return h.Pages.Render(c, http.StatusOK, "login_code", loginForm{Next: form.Next, Kept: form.Kept})
}

func (h *Handler) loginCode(c echo.Context) error {
	ctx := c.Request().Context()
	name, form := h.Sessions.GetString(ctx, keyPending), loginForm{Next: c.FormValue("next"), Kept: c.FormValue("kept")}
	began := time.Unix(h.Sessions.GetInt64(ctx, keyPendingSince), 0)
	if name == "" || h.Now().Sub(began) > pendingLife {
		return h.Pages.Redirect(c, "/login")
	}
	if wait := h.waits(c, name); wait > 0 {
		form.Error = h.Texts.T(c, "login.wait", h.Texts.Words(c, wait))
		return h.Pages.Render(c, http.StatusTooManyRequests, "login_code", form)
	}
	secret, err := h.Accounts.TOTPSecret(ctx, name)
	if err != nil {
		return err
	}
	u, err := h.users.get(ctx, name)
	if err != nil {
		return err
	}
	ok, wait := h.codes.use(name, c.FormValue("code"), secret)
	if wait > 0 {
		form.Error = h.Texts.T(c, "login.wait", h.Texts.Words(c, wait))
		return h.Pages.Render(c, http.StatusTooManyRequests, "login_code", form)
	}
	if u == nil || secret == "" || !ok {
		h.Log.Warn("second factor rejected", "user", name, "address", c.RealIP())
		form.Error = h.Texts.T(c, "login.wrong_code")
		return h.Pages.Render(c, http.StatusUnauthorized, "login_code", form)
	}
	h.attempts.Passed(name, c.RealIP())
	if waiting, err := h.Sessions.store.end(ctx, opened(ctx)); err != nil {
		return err
	} else if !waiting { // the password was changed or the user disabled in the meantime
		return h.Pages.Redirect(c, "/login")
	}
	return h.welcome(c, u, form)
}

// totpSetup holds what is needed to set up an authenticator.
type totpSetup struct {
	Secret string
	QR     template.URL // a data URL
}

func newTOTP(user string) (string, error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: "Wakecall", AccountName: user})
	if err != nil {
		return "", err
	}
	return key.Secret(), nil
}

const qrSize = 240

func setupOf(user, secret string) (*totpSetup, error) {
	key, err := otp.NewKeyFromURL("otpauth://totp/Wakecall:" + user + "?issuer=Wakecall&secret=" + secret)
	if err != nil {
		return nil, err
	}
	img, err := key.Image(qrSize, qrSize)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return nil, err
	}
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
	return &totpSetup{secret, template.URL(image)}, nil
}
