package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) pushRoutes(g *echo.Group) {
	g.GET("/push", func(c echo.Context) error { return a.render(c, http.StatusOK, "push", nil) })
}
