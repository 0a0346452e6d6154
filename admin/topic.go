package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) topicRoutes(g *echo.Group) {
	g.GET("/topics/:topic", func(c echo.Context) error { return a.render(c, http.StatusOK, "topic", nil) })
}
