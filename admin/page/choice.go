package page

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/web"
)

// Cookies for the user's choices.
const (
	langCookie  = "wakecall_lang"
	themeCookie = "wakecall_theme"
	choiceLife  = 365 * 24 * time.Hour
)

func (b *Base) ChoiceRoutes(g *echo.Group) {
	g.POST("/language", b.choose(langCookie, func(v string) bool { return web.MatchLanguage(v, "") == v }))
	g.POST("/zone", b.choose(zoneCookie, knownZone))
	g.POST("/theme", b.choose(themeCookie, func(v string) bool { return v == "light" || v == "dark" || v == "auto" }))
}

// choose stores a choice in a cookie and redirects to the page.
func (b *Base) choose(cookie string, known func(string) bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		value := c.FormValue("choice")
		if !known(value) {
			return echo.NewHTTPError(http.StatusBadRequest)
		}
		c.SetCookie(&http.Cookie{
			Name: cookie, Value: value, Path: b.BasePath + "/", MaxAge: int(choiceLife.Seconds()),
			SameSite: http.SameSiteLaxMode,
			HttpOnly: true, Secure: b.Secure(c),
		})
		return b.Back(c, "/")
	}
}

// Lang returns the language of the request: the user's choice, or else what the browser accepts.
func Lang(c echo.Context) string {
	choice := ""
	if cookie, err := c.Cookie(langCookie); err == nil {
		choice = cookie.Value
	}
	return web.MatchLanguage(choice, c.Request().Header.Get("Accept-Language"))
}

func theme(c echo.Context) string {
	if cookie, err := c.Cookie(themeCookie); err == nil && (cookie.Value == "light" || cookie.Value == "dark") {
		return cookie.Value
	}
	return "auto"
}
