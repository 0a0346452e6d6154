package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/connlimit"
	"github.com/wakecall/wakecall/web"
)

// Admin is the web admin.
type Admin struct {
	opts      Options
	base      string // BasePath without the slash at its end: "" or "/wakecall"
	log       *slog.Logger
	queue     Queue
	registry  Registry
	store     *steadyStore
	sessions  *scs.SessionManager
	assets    *web.Assets
	texts     map[string]web.Texts
	templates map[string]*web.Templates // by language
	users     *users
	attempts  *loginLimit
	hub       *hub
	echo      *echo.Echo
	handler   http.Handler
	codes     *codes
	shown     atomic.Pointer[Strip]
	counted   statsBook
	tasks     []func(context.Context) error // what groups run beside serving
	overview  overviewState
	patience  time.Duration // of counting what matches while a page is made; what takes longer is counted after it
}

// New makes an admin. It fails when an embedded template or text is broken.
func New(opts Options) (*Admin, error) {
	if err := opts.defaults(); err != nil {
		return nil, err
	}
	a := &Admin{
		opts: opts, base: strings.TrimRight(opts.BasePath, "/"), log: opts.Logger, queue: opts.Queue, registry: opts.Registry,
		attempts: newLoginLimit(opts.Now), templates: map[string]*web.Templates{}, codes: &codes{now: opts.Now, last: map[string]int64{}},
		patience: countAtOnce,
	}
	a.users = &users{registry: opts.Registry, now: opts.Now, known: map[string]knownUser{}}
	a.hub = newHub(a.renderPartial, a.log)
	a.store = newSteadyStore(opts.Sessions, opts.Now)
	a.sessions = a.newSessions()
	if err := a.load(); err != nil {
		return nil, err
	}
	a.echo = echo.New()
	a.echo.HTTPErrorHandler = a.fail
	a.echo.IPExtractor = addressOf(opts.TrustedProxies)
	a.routes()
	a.handler = http.NewCrossOriginProtection().Handler(a.echo)
	return a, nil
}

func (a *Admin) load() (err error) {
	if a.assets, err = web.LoadAssets(); err != nil {
		return err
	}
	if a.texts, err = web.LoadTexts(); err != nil {
		return err
	}
	for _, l := range web.Languages {
		if a.templates[l.Code], err = web.LoadTemplates(a.funcs(l.Code)); err != nil {
			return err
		}
	}
	return nil
}

// addressOf finds a client's address: X-Forwarded-For counts when the connection comes from a trusted proxy.
func addressOf(proxies []*net.IPNet) echo.IPExtractor {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, n := range proxies {
		trust = append(trust, echo.TrustIPRange(n))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

// ServeHTTP answers one request. HEAD is served as GET; net/http leaves the body out.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		get := *r
		get.Method = http.MethodGet
		r = &get
	}
	a.handler.ServeHTTP(w, r)
}

// Bounds of what browsers may send and hold.
const (
	maxConns      = 1024
	maxHeader     = 32 << 10
	maxForm       = 4 << 20
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = time.Minute
	idleTimeout   = 2 * time.Minute
	restWithin    = 3 * time.Second // of connections with a request, before those that have none are closed
)

// Run serves on l until ctx is done and then stops gracefully: streams end at once, requests have ShutdownTimeout. l is closed then.
func (a *Admin) Run(ctx context.Context, l net.Listener) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := a.runTasks(inner)
	conns := newDrain()
	limited := connlimit.New(l, connlimit.Max(maxConns))
	srv := &http.Server{
		ConnState: conns.note, ConnContext: connlimit.ConnContext, Handler: connlimit.Track(a),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	if a.opts.TLS != nil {
		srv.TLSConfig = a.opts.TLS.Clone()
	}
	served := make(chan error, 1)
	go func() { served <- serve(srv, limited) }()
	var err error
	select {
	case err = <-served:
		err = errors.Join(fmt.Errorf("serving the admin on %s: %w", l.Addr(), err), srv.Close())
	case <-ctx.Done():
		a.hub.close()       // streams would go on for ever
		_ = limited.Close() // a successor accepts, if there is one
		<-served            // from here on every connection that was accepted is known
		conns.wait(min(restWithin, a.opts.ShutdownTimeout/3))
		err = a.stop(srv)
	}
	a.hub.close()
	stop()
	return errors.Join(err, <-ended)
}

func serve(srv *http.Server, l net.Listener) error {
	if srv.TLSConfig != nil {
		return srv.ServeTLS(l, "", "")
	}
	return srv.Serve(l)
}

func (a *Admin) stop(srv *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.opts.ShutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests to the admin were still under way after %s: %w", a.opts.ShutdownTimeout, err), srv.Close())
	}
	return nil
}

// runTasks runs what the groups want beside serving; ended tells their errors when all have ended.
func (a *Admin) runTasks(ctx context.Context) (ended <-chan error) {
	all := make(chan error, 1)
	results := make(chan error, len(a.tasks))
	for _, task := range a.tasks {
		go func() { results <- task(ctx) }()
	}
	go func() {
		var errs []error
		for range a.tasks {
			errs = append(errs, <-results)
		}
		all <- errors.Join(errs...)
	}()
	return all
}
