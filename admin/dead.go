package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) deadRoutes(g *echo.Group) {
	g.GET("/dead", func(c echo.Context) error { return a.render(c, http.StatusOK, "dead", nil) })
}
