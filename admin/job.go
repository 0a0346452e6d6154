package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) jobRoutes(g *echo.Group) {
	g.GET("/topics/:topic/jobs/:id", func(c echo.Context) error { return a.render(c, http.StatusOK, "job", nil) })
}
