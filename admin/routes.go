package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// routes registers every page. A group of pages is one file with one function here.
func (a *Admin) routes() {
	e := a.echo
	e.Use(a.headers)
	e.GET(a.base+"/assets/:name", echo.WrapHandler(a.assets))
	alive := func(c echo.Context) error { return c.JSONBlob(http.StatusOK, []byte(`{"status":"ok"}`)) }
	e.GET("/healthz", alive)
	if a.base != "" {
		e.GET(a.base+"/healthz", alive)
		e.GET("/", func(c echo.Context) error { return a.redirect(c, "/") })
		e.GET(a.base, func(c echo.Context) error { return a.redirect(c, "/") })
	}
	open := e.Group(a.base, a.session, a.catch)
	a.loginRoutes(open)
	a.choiceRoutes(open)

	g := open.Group("", a.signedIn)
	a.stripSource()
	a.overviewRoutes(g)
	a.topicsRoutes(g)
	a.topicRoutes(g)
	a.jobRoutes(g)
	a.pushRoutes(g)
	a.deadRoutes(g)
	a.shardsRoutes(g)
	a.alertsRoutes(g)
	a.tasksRoutes(g)
	a.accessRoutes(g)
	a.auditRoutes(g)
	a.processesRoutes(g)
	a.accountRoutes(g)
	g.RouteNotFound("/*", func(echo.Context) error { return echo.ErrNotFound })

	// A stream lives for hours, and the session must not be written for it.
	e.GET(a.base+"/events", a.events)
}
