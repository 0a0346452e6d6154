package admin

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) overviewRoutes(g *echo.Group) {
	g.GET("/", func(c echo.Context) error { return a.render(c, http.StatusOK, "overview", nil) })
}

// overviewQueue is what this group and those of dead letters, shards and tasks need of the queue beside what all pages do.
type overviewQueue interface{}

// overviewRegistry is what they need of the registry.
type overviewRegistry interface{}

// OverviewParts are what else they work with.
type OverviewParts struct {
	// Strip gives the totals on every page; nil: they are summed up from all topics.
	Strip func(ctx context.Context) (*Strip, error)
}
