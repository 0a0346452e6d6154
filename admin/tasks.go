package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) tasksRoutes(g *echo.Group) {
	g.GET("/tasks", func(c echo.Context) error { return a.render(c, http.StatusOK, "tasks", nil) })
}
