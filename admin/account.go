package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) accountRoutes(g *echo.Group) {
	g.GET("/account", func(c echo.Context) error { return a.render(c, http.StatusOK, "account", nil) })
}
