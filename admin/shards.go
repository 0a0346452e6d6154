package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) shardsRoutes(g *echo.Group) {
	g.GET("/shards", func(c echo.Context) error { return a.render(c, http.StatusOK, "shards", nil) })
}
