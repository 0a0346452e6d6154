package page

import (
	"crypto/sha256"
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry/seal"
)

// KeepSecret stores a new secret in the session until TakeSecret returns it. It is encrypted under the session's
// cookie, which is not in the database.
func (b *Base) KeepSecret(c echo.Context, name, secret string) error {
	sealed, err := b.sessionKey(c).Seal(name, secret)
	if err != nil {
		return fmt.Errorf("keep a new secret: %w", err)
	}
	b.Sessions.Put(c.Request().Context(), name, sealed)
	return nil
}

// TakeSecret returns a kept secret once; empty: there is none.
func (b *Base) TakeSecret(c echo.Context, name string) string {
	sealed := b.Sessions.PopString(c.Request().Context(), name)
	if sealed == "" {
		return ""
	}
	secret, err := b.sessionKey(c).Open(name, sealed)
	if err != nil {
		b.Log.Warn("a new secret cannot be shown", "error", err)
	}
	return secret
}

func (b *Base) sessionKey(c echo.Context) seal.Key {
	sum := sha256.Sum256([]byte(b.Sessions.Token(c.Request().Context())))
	return sum[:]
}
