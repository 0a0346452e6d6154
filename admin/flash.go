package admin

import (
	"github.com/labstack/echo/v4"
)

// Flash is a message that the next page shows once.
type Flash struct {
	Kind string // success, info, warning, danger
	Text string
}

// Icon belongs to the kind.
func (f Flash) Icon() string {
	switch f.Kind {
	case "success":
		return "circle-check"
	case "warning", "danger":
		return "alert-triangle"
	}
	return "info-circle"
}

// flash leaves a text of the locales for the next page.
func (a *Admin) flash(c echo.Context, kind, key string, args ...any) {
	a.flashText(c, kind, a.t(c, key, args...))
}

// flashText leaves a text as it is, such as an error.
func (a *Admin) flashText(c echo.Context, kind, text string) {
	ctx := c.Request().Context()
	list, _ := a.sessions.Get(ctx, keyFlashes).([]Flash)
	a.sessions.Put(ctx, keyFlashes, append(list, Flash{kind, text}))
}

func (a *Admin) takeFlashes(c echo.Context) []Flash {
	if c.Get(sessionKey) == nil {
		return nil
	}
	list, _ := a.sessions.Pop(c.Request().Context(), keyFlashes).([]Flash)
	return list
}
