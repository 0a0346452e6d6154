package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/setup"
)

// RunAlone runs a role without a master: it listens itself, and serves its own metrics.
func RunAlone(ctx context.Context, cfg *conf.Config, name, version string, log *slog.Logger) (err error) {
	if err := setup.MakeDataDir(cfg); err != nil {
		return err
	}
	p, err := openParts(ctx, cfg, name, version, log)
	if err != nil {
		return setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	// Passwords first: a wrong one must not be stored in the registry.
	if err := setup.CheckPasswords(ctx, cfg, setup.PlannedShards(cfg, p.registry.Snapshot())); err != nil {
		return err
	}
	if err := setup.Seed(ctx, cfg, p.registry, log); err != nil {
		return err
	}
	sockets := map[string]net.Listener{}
	for _, spec := range listeners(cfg, name) {
		if sockets[spec.Name], err = openSocket(spec.Key, spec.Addr); err != nil {
			return err
		}
	}
	r, err := p.newRole(name, sockets, nil)
	if err != nil {
		return err
	}
	var services []service
	if name != RoleChecker { // no redis-checker may be there to compare this journal with the shards
		k, err := p.newKeeper(nil)
		if err != nil {
			return err
		}
		services = append(services, service{"journal comparison", k.Run})
	}
	stop := serveMetrics(cfg, p.metrics, log)
	defer stop()
	log.Info("started", "version", version)
	return p.run(ctx, r.run, services...)
}

// openSocket opens a listener; its errors name the key of the configuration.
func openSocket(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%[1]s: the address %[2]s is in use by another program: "+
			"stop that one (ss -ltnp shows which), or set %[1]s to another address", key, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return l, nil
}

// serveMetrics serves /metrics of this process until stop is called. Several roles on one host need an address each;
// a role runs without its metrics if it has none.
func serveMetrics(cfg *conf.Config, m prometheus.Gatherer, log *slog.Logger) (stop func()) {
	l, err := openSocket("metrics.addr", cfg.Metrics.Addr)
	if err != nil {
		log.Warn("this process serves no metrics", "error", err)
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m, promhttp.HandlerOpts{}))
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("serve metrics", "error", err)
		}
	}()
	return func() {
		_ = srv.Close() // without waiting for a scrape
		<-done
	}
}
