package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/access"
	"github.com/wakecall/wakecall/admin/alerts"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/overview"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/admin/topics"
	"github.com/wakecall/wakecall/internal/listen"
)

// Admin is the web admin.
type Admin struct {
	page     *page.Base
	access   *access.Handler
	jobs     *jobs.Handler
	overview *overview.Handler
	echo     *echo.Echo
	handler  http.Handler
}

// New returns an Admin. It fails when an embedded template or text is broken.
func New(o Options) (*Admin, error) {
	base, err := page.New(o)
	if err != nil {
		return nil, err
	}
	a := &Admin{page: base, echo: echo.New()}
	a.echo.HTTPErrorHandler = base.Fail
	a.echo.IPExtractor = page.AddressOf(o.TrustedProxies)
	a.routes()
	a.handler = http.NewCrossOriginProtection().Handler(a.echo)
	return a, nil
}

// routes creates the handlers of all areas and registers their pages.
func (a *Admin) routes() {
	b, e := a.page, a.echo
	a.access = access.New(b)
	fig := figures.New(b)
	a.jobs = jobs.New(b, fig)
	sh := shards.New(b)
	a.overview = overview.New(b, fig, sh)
	areas := []interface{ Routes(*echo.Group) }{
		a.overview, fig, topics.New(b, fig, a.jobs), a.jobs, sh, alerts.New(b), a.access,
	}

	e.Use(b.Headers)
	e.GET(b.BasePath+"/assets/:name", echo.WrapHandler(b.Assets()))
	alive := func(c echo.Context) error { return c.JSONBlob(http.StatusOK, []byte(`{"status":"ok"}`)) }
	e.GET("/healthz", alive)
	if b.BasePath != "" {
		e.GET(b.BasePath+"/healthz", alive)
		e.GET("/", func(c echo.Context) error { return b.Redirect(c, "/") })
		e.GET(b.BasePath, func(c echo.Context) error { return b.Redirect(c, "/") })
	}
	open := e.Group(b.BasePath, a.access.Session, b.Catch)
	a.access.OpenRoutes(open)
	b.ChoiceRoutes(open)
	g := open.Group("", a.access.SignedIn)
	for _, area := range areas {
		area.Routes(g)
	}
	g.RouteNotFound("/*", func(echo.Context) error { return echo.ErrNotFound })
	// A stream lives for hours, and no request may write to the session for that long.
	e.GET(b.BasePath+"/events", func(c echo.Context) error { return b.Hub.Serve(c, page.Lang(c), a.access.StreamUser) })
}

// ServeHTTP answers one request. It serves HEAD as GET, and net/http drops the body.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		get := *r
		get.Method = http.MethodGet
		r = &get
	}
	a.handler.ServeHTTP(w, r)
}

// Limits on what browsers may send and keep open.
const (
	maxConns      = 1024
	maxHeader     = 32 << 10
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = time.Minute
	idleTimeout   = 2 * time.Minute
)

// Run serves on l until ctx is done and then stops gracefully: streams end at once, other requests have
// ShutdownTimeout. Run closes l.
func (a *Admin) Run(ctx context.Context, l net.Listener) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	tasks := make(chan error, 1)
	go func() { tasks <- a.jobs.Runner().Run(inner) }()
	err := listen.HTTP(ctx, l, &http.Server{
		Handler: a, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(a.page.Log.Handler(), slog.LevelDebug),
	}, listen.Options{
		MaxConns: maxConns, TLS: a.page.TLS, ShutdownTimeout: a.page.ShutdownTimeout, Draining: a.page.Hub.Close,
		Refusal: page.Refusal,
	})
	a.page.Hub.Close()
	stop()
	return errors.Join(err, <-tasks)
}
