package page

import (
	"crypto/sha256"
	"fmt"
	"log/slog"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry/seal"
)

// KeyFlashes is the flashes' key in the session.
const KeyFlashes = "flashes"

const sessionKey = "session"

// SetSession marks a request that has a session; addresses outside the base path have none.
func SetSession(c echo.Context) { c.Set(sessionKey, true) }

// Flash is a message that the next page shows once.
type Flash struct {
	Kind string // success, info, warning, danger
	Text string
}

// Icon returns the icon of the kind.
func (f Flash) Icon() string {
	switch f.Kind {
	case "success":
		return "circle-check"
	case "warning", "danger":
		return "alert-triangle"
	}
	return "info-circle"
}

// Flashes keep in the session what the next page shows once: messages, and new secrets.
type Flashes struct {
	sessions *scs.SessionManager
	texts    *Texts
	log      *slog.Logger
}

// NewFlashes returns the Flashes of sessions.
func NewFlashes(sessions *scs.SessionManager, texts *Texts, log *slog.Logger) *Flashes {
	return &Flashes{sessions, texts, log}
}

// Add shows a text of the locales on the next page.
func (f *Flashes) Add(c echo.Context, kind, key string, args ...any) {
	f.AddText(c, kind, f.texts.T(c, key, args...))
}

// AddText shows a text without translation on the next page.
func (f *Flashes) AddText(c echo.Context, kind, text string) {
	ctx := c.Request().Context()
	list, _ := f.sessions.Get(ctx, KeyFlashes).([]Flash)
	f.sessions.Put(ctx, KeyFlashes, append(list, Flash{kind, text}))
}

// AddError shows an error on the next page.
func (f *Flashes) AddError(c echo.Context, err error) {
	f.AddText(c, "danger", f.texts.Explain(c, err))
}

func (f *Flashes) take(c echo.Context) []Flash {
	if c.Get(sessionKey) == nil {
		return nil
	}
	list, _ := f.sessions.Pop(c.Request().Context(), KeyFlashes).([]Flash)
	return list
}

// KeepSecret stores a new secret in the session until TakeSecret returns it. It is encrypted under the session's
// cookie, which is not in the database.
func (f *Flashes) KeepSecret(c echo.Context, name, secret string) error {
	sealed, err := f.key(c).Seal(name, secret)
	if err != nil {
		return fmt.Errorf("keep a new secret: %w", err)
	}
	f.sessions.Put(c.Request().Context(), name, sealed)
	return nil
}

// TakeSecret returns a kept secret once; empty: there is none.
func (f *Flashes) TakeSecret(c echo.Context, name string) string {
	sealed := f.sessions.PopString(c.Request().Context(), name)
	if sealed == "" {
		return ""
	}
	secret, err := f.key(c).Open(name, sealed)
	if err != nil {
		f.log.Warn("a new secret cannot be shown", "error", err)
	}
	return secret
}

func (f *Flashes) key(c echo.Context) seal.Key {
	sum := sha256.Sum256([]byte(f.sessions.Token(c.Request().Context())))
	return sum[:]
}
