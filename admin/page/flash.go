package page

import (
	"github.com/labstack/echo/v4"
)

const KeyFlashes = "flashes" // key in the session

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

// Flash shows a text of the locales on the next page.
func (b *Base) Flash(c echo.Context, kind, key string, args ...any) {
	b.FlashText(c, kind, b.T(c, key, args...))
}

// FlashText shows a text without translation, such as an error, on the next page.
func (b *Base) FlashText(c echo.Context, kind, text string) {
	ctx := c.Request().Context()
	list, _ := b.Sessions.Get(ctx, KeyFlashes).([]Flash)
	b.Sessions.Put(ctx, KeyFlashes, append(list, Flash{kind, text}))
}

func (b *Base) takeFlashes(c echo.Context) []Flash {
	if c.Get(SessionKey) == nil {
		return nil
	}
	list, _ := b.Sessions.Pop(c.Request().Context(), KeyFlashes).([]Flash)
	return list
}
