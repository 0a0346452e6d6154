package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) processesRoutes(g *echo.Group) {
	g.GET("/processes", func(c echo.Context) error { return a.render(c, http.StatusOK, "processes", nil) })
}
