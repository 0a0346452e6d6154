package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) auditRoutes(g *echo.Group) {
	g.GET("/audit", func(c echo.Context) error { return a.render(c, http.StatusOK, "audit", nil) })
}

// auditRegistry is what the audit page needs of the registry.
type auditRegistry interface{}
