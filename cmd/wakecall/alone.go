package main

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
	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/conf"
)

// roleCommands run one role alone in the foreground, as containers and systemd want it.
func (a *app) roleCommands() []*cobra.Command {
	return []*cobra.Command{
		a.roleCommand(roleServer, "the HTTP API alone, in the foreground"),
		a.roleCommand(roleTimer, "one timer alone: moves due jobs, returns expired leases"),
		a.roleCommand(roleDispatcher, "one dispatcher alone: calls the endpoints"),
		a.roleCommand(roleChecker, "the redis-checker alone: watches every shard"),
		a.roleCommand(roleAdmin, "the web admin alone, in the foreground"),
	}
}

func (a *app) roleCommand(name, short string) *cobra.Command {
	cmd := &cobra.Command{Use: name, GroupID: groupRun, Short: short, Args: noArgs}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.load(s)
		if err != nil {
			return err
		}
		return runAlone(cmd.Context(), cfg, name, newLogger(cfg, a.err, name))
	}
	return cmd
}

// runAlone runs a role without a master: it listens itself, and shows its own metrics.
func runAlone(ctx context.Context, cfg *conf.Config, name string, log *slog.Logger) (err error) {
	if err := makeDataDir(cfg); err != nil {
		return err
	}
	p, err := openParts(ctx, cfg, name, log)
	if err != nil {
		return adviseOnRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	// Passwords first: the registry must not remember a wrong one.
	if err := checkPasswords(ctx, cfg, plannedShards(cfg, p.registry.Snapshot())); err != nil {
		return err
	}
	if err := prepare(ctx, cfg, p.registry, log); err != nil {
		return err
	}
	var l net.Listener
	if key, addr := addressOfRole(cfg, name); key != "" {
		if l, err = listen(key, addr); err != nil {
			return err
		}
	}
	r, err := p.newRole(name, l, nil)
	if err != nil {
		return err
	}
	stop := serveMetrics(cfg, p.metrics, log)
	defer stop()
	log.Info("started", "version", version)
	return p.run(ctx, r.run)
}

// addressOfRole is the key of the configuration and the address that a role listens on; empty for a role that does not.
func addressOfRole(cfg *conf.Config, role string) (key, addr string) {
	switch role {
	case roleServer:
		return "server.addr", cfg.Server.Addr
	case roleAdmin:
		return "admin.addr", cfg.Admin.Addr
	}
	return "", ""
}

// listen opens a listener, and names the key of the configuration when it cannot.
func listen(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %s is in use by another program; stop it (ss -ltnp shows which), or set %s to another address", key, addr, key)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return l, nil
}

// serveMetrics serves /metrics of this process until stop is called. Several roles on one host need an address each; for want of one
// a role does not refuse to work.
func serveMetrics(cfg *conf.Config, m prometheus.Gatherer, log *slog.Logger) (stop func()) {
	l, err := listen("metrics.addr", cfg.Metrics.Addr)
	if err != nil {
		log.Warn("this process shows no metrics", "error", err)
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m, promhttp.HandlerOpts{}))
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("serving metrics ended", "error", err)
		}
	}()
	return func() {
		_ = srv.Close() // nobody waits for its answers
		<-done
	}
}
