package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master"
)

// RunAlone runs a role without a master. The role opens its own listeners and serves its own metrics.
func RunAlone(ctx context.Context, cfg *conf.Config, name, version string, log *slog.Logger) (err error) {
	if err := setup.MakeDataDir(cfg); err != nil {
		return err
	}
	setup.WarnOpenDir(cfg, log)
	state := &aloneState{process: master.Process{Version: version, State: master.StateStarting}}
	defer state.serve(cfg.DataDir, name, log)()
	p, err := openParts(ctx, cfg, name, version, log, registry.MigrateEmpty)
	if err != nil {
		return setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	// Before seeding the registry, so that a wrong password is not stored in it.
	if _, err := setup.TryShards(ctx, cfg, setup.PlannedShards(ctx, cfg, p.registry)); err != nil {
		return err
	}
	if err := setup.Seed(ctx, cfg, p.registry, log); err != nil {
		return err
	}
	sockets := map[string]net.Listener{}
	p.bound = map[string]string{}
	for _, spec := range listeners(cfg, name) {
		l, err := master.Listen(spec.Key, spec.Addr)
		if err != nil && !spec.Optional {
			return err
		}
		if err != nil {
			log.Error("starting without a listener", "error", err)
			continue
		}
		sockets[spec.Name] = l
		p.bound[spec.Key] = l.Addr().String()
	}
	r, err := p.newRole(name, sockets, nil)
	if err != nil {
		return err
	}
	stop := serveMetrics(cfg, master.Alone(p.metrics, name, version), log)
	defer stop()
	log.Info("started", "version", version)
	return p.run(ctx, func(ctx context.Context) error {
		return r.serve(ctx, func() { state.ready(p.healthURL(name), func() map[string]any { return p.status(r) }) })
	})
}

// healthURL is healthURL with the ports that the system chose.
func (p *parts) healthURL(role string) string {
	cfg := *p.cfg
	cfg.Server.Addr = boundAddr(conf.Listener{Key: "server.addr", Addr: cfg.Server.Addr}, p.bound)
	cfg.Admin.Addr = boundAddr(conf.Listener{Key: "admin.addr", Addr: cfg.Admin.Addr}, p.bound)
	return healthURL(&cfg, role)
}

// aloneState is what a role without a master says about itself to `wakecall health`.
type aloneState struct {
	mu      sync.Mutex
	process master.Process
	status  func() map[string]any // nil until it is ready
}

// serve answers until stop is called. Where it cannot, as with too long a path, the role runs without.
func (a *aloneState) serve(dir, role string, log *slog.Logger) (stop func()) {
	stop, err := master.ServeAlone(dir, role, a.describe)
	if err != nil {
		log.Warn("wakecall health cannot see this process", "error", err)
		return func() {}
	}
	return stop
}

func (a *aloneState) describe() master.Process {
	a.mu.Lock()
	d, status := a.process, a.status
	a.mu.Unlock()
	if status != nil {
		d.Status, _ = json.Marshal(status())
	}
	return d
}

func (a *aloneState) ready(health string, status func() map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.process.State, a.process.Health, a.status = master.StateRunning, health, status
}

// serveMetrics serves /metrics of this process until stop is called. Several roles on one host need different
// addresses; if its address is in use, a role runs without metrics.
func serveMetrics(cfg *conf.Config, m prometheus.Gatherer, log *slog.Logger) (stop func()) {
	l, err := master.Listen("metrics.addr", cfg.Metrics.Addr)
	if err != nil {
		log.Warn("metrics of this process are not available", "error", err)
		return func() {}
	}
	return ServeMetrics(l, m, nil, log)
}

// ServeMetrics serves /metrics and /healthz, see master.MetricsServer, until stop is called.
func ServeMetrics(
	l net.Listener, m prometheus.Gatherer, problem func() string, log *slog.Logger,
) (stop func()) {
	srv, limited := master.MetricsServer(l, promhttp.HandlerFor(m, promhttp.HandlerOpts{}), problem)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("serve metrics", "error", err)
		}
	}()
	return func() {
		_ = srv.Close() // does not wait for a running scrape
		<-done
	}
}
