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

// Choices are the forms with which users choose language, time zone and theme.
type Choices struct {
	Pages   *Pages
	Proxies Proxies
}

// Routes registers the forms.
func (h Choices) Routes(g *echo.Group) {
	g.POST("/language", h.choose(langCookie, func(v string) bool { return web.MatchLanguage(v, "") == v }))
	g.POST("/zone", h.choose(zoneCookie, knownZone))
	g.POST("/theme", h.choose(themeCookie, func(v string) bool { return v == "light" || v == "dark" || v == "auto" }))
}

// choose stores a choice in a cookie and redirects to the page.
func (h Choices) choose(cookie string, known func(string) bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		value := c.FormValue("choice")
		if !known(value) {
			return echo.NewHTTPError(http.StatusBadRequest)
		}
		c.SetCookie(&http.Cookie{
			Name: cookie, Value: value, Path: h.Pages.BasePath + "/", MaxAge: int(choiceLife.Seconds()),
			SameSite: http.SameSiteLaxMode,
			HttpOnly: true, Secure: h.Proxies.Secure(c),
		})
		return h.Pages.Back(c, "/")
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
