package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/access"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/listen"
)

// Admin is the web admin.
type Admin struct {
	Options
	echo    *echo.Echo
	hub     *live.Hub
	figures *figures.Handler
	handler http.Handler
}

// New returns an Admin. It fails when an embedded template or text is broken.
func New(o Options) (*Admin, error) {
	if o.SendMail == nil {
		o.SendMail = alert.SendMail
	}
	texts, err := page.LoadTexts()
	if err != nil {
		return nil, err
	}
	o.BasePath = page.CleanBase(o.BasePath)
	sessions := access.NewSessions(o.Sessions, o.BasePath, o.Log, o.Now)
	pages, err := page.New(page.Options{
		BasePath: o.BasePath, Version: o.Version, Texts: texts,
		Flashes: page.NewFlashes(sessions.SessionManager, texts, o.Log), Log: o.Log, Now: o.Now,
		Key: o.Registry.DB().Key,
	})
	if err != nil {
		return nil, err
	}
	a := &Admin{Options: o, echo: echo.New(), hub: live.NewHub(pages.RenderPartial, o.Log)}
	a.echo.HTTPErrorHandler = pages.Fail
	a.echo.IPExtractor = o.Proxies.Address()
	in := newAreas(o, pages, sessions, a.hub)
	a.figures = in.figures
	a.routes(pages, in)
	own := http.NewCrossOriginProtection()
	if origin := originOf(o.Config.Admin.PublicURL); origin != "" {
		if err := own.AddTrustedOrigin(origin); err != nil { // where a proxy replaces the Host, and there is no TLS
			return nil, fmt.Errorf("admin.public_url: %w", err)
		}
	}
	a.handler = own.Handler(a.echo)
	return a, nil
}

// originOf returns a URL's origin as browsers send it: in lower case, without the default port.
func originOf(address string) string {
	u, err := url.Parse(strings.ToLower(address))
	if err != nil || u.Host == "" {
		return ""
	}
	if u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Scheme + "://" + u.Host
}

// routes registers the pages of all areas.
func (a *Admin) routes(pages *page.Pages, in areas) {
	e := a.echo
	e.Use(a.Proxies.Headers)
	e.GET(a.BasePath+"/assets/:name", echo.WrapHandler(pages.Assets()))
	alive := func(c echo.Context) error { return c.JSONBlob(http.StatusOK, []byte(`{"status":"ok"}`)) }
	e.GET("/healthz", alive)
	if a.BasePath != "" {
		e.GET(a.BasePath+"/healthz", alive)
		e.GET("/", func(c echo.Context) error { return pages.Redirect(c, "/") })
		e.GET(a.BasePath, func(c echo.Context) error { return pages.Redirect(c, "/") })
	}
	open := e.Group(a.BasePath, in.access.Session, pages.Catch)
	in.access.OpenRoutes(open)
	page.Choices{Pages: pages, Proxies: a.Proxies}.Routes(open)
	g := open.Group("", in.access.SignedIn)
	for _, area := range []interface{ Routes(*echo.Group) }{
		in.overview, in.figures, in.topics, in.jobs, in.schedules, in.shards, in.alerts, in.access,
	} {
		area.Routes(g)
	}
	g.RouteNotFound("/*", func(echo.Context) error { return echo.ErrNotFound })
	// A stream lives for hours, and no request may write to the session for that long.
	e.GET(a.BasePath+"/events", func(c echo.Context) error {
		return a.hub.Serve(c, page.Lang(c), in.access.StreamUser)
	})
}

// Routes returns the addresses that the admin serves.
func (a *Admin) Routes() []*echo.Route { return a.echo.Routes() }

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
// ShutdownTimeout. Run closes l. It also carries out the bulk tasks of this host, and keeps figures to show
// while a server that has them is unavailable.
func (a *Admin) Run(ctx context.Context, l net.Listener) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	tasks := make(chan error, 1)
	go func() { tasks <- a.Tasks.Run(inner) }()
	var keeping sync.WaitGroup
	keeping.Go(func() { a.figures.Keep(inner) })
	err := listen.HTTP(ctx, l, &http.Server{
		Handler: a, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}, listen.Options{
		MaxConns: maxConns, TLS: a.TLS, ShutdownTimeout: a.ShutdownTimeout, Draining: a.Close, Refusal: page.Refusal,
	})
	a.Close()
	stop()
	keeping.Wait()
	return errors.Join(err, <-tasks)
}

// Close ends the streams and what runs in the background for them. Run calls it.
func (a *Admin) Close() { a.hub.Close() }
