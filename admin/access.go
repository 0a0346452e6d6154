package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) accessRoutes(g *echo.Group) {
	g.GET("/access", func(c echo.Context) error { return a.render(c, http.StatusOK, "access", nil) })
}

// accessRegistry is what the page of users and tokens needs of the registry.
type accessRegistry interface{}
