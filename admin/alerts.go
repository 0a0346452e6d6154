package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) alertsRoutes(g *echo.Group) {
	g.GET("/alerts", func(c echo.Context) error { return a.render(c, http.StatusOK, "alerts", nil) })
}
