package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

func (a *Admin) topicsRoutes(g *echo.Group) {
	g.GET("/topics", func(c echo.Context) error { return a.render(c, http.StatusOK, "topics", nil) })
}

// topicsQueue is what this group and those of one topic, jobs and pushes need of the queue beside what all pages do.
type topicsQueue interface{}

// topicsRegistry is what they need of the registry.
type topicsRegistry interface{}

// TopicsParts are what else they work with.
type TopicsParts struct{}
