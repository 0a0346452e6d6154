package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wakecall/wakecall/client"
)

const watchEvery = 5 * time.Second

// unsafeInName are the bytes that the name of a report cannot have.
var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// watch reads the state of the table for the metrics, and reports it to Wakecall, until ctx is done.
func (r *Relay) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		s, err := r.Table.State(ctx)
		if err == nil {
			r.metrics.setState(s)
		}
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.Log.Debug("report to Wakecall", "error", err)
		}
		select {
		case <-ctx.Done():
			r.withdraw(ctx)
			return
		case <-tick.C:
		}
	}
}

// report tells Wakecall about the table, for the alert. A server that knows no relays is not told.
func (r *Relay) report(ctx context.Context) error {
	s, problem := r.metrics.current()
	body, _ := json.Marshal(map[string]any{ // it cannot fail
		"oldest_ms": s.OldestMS, "waiting": s.Waiting, "set_aside": s.SetAside, "error": clip(problem),
	})
	ctx, cancel := context.WithTimeout(ctx, r.CallTimeout)
	defer cancel()
	err := r.Client.Do(ctx, http.MethodPut, "/v1/relays/"+r.Name, body, nil)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// withdraw deletes the report of a table without rows, so that the end of its last relay is no alert. Another relay of
// the table reports again within watchEvery.
func (r *Relay) withdraw(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if s, err := r.Table.State(ctx); err == nil && s.Waiting+s.SetAside == 0 {
		_ = r.send(ctx, http.MethodDelete, "/v1/relays/"+r.Name, nil, nil) // at worst, there is an alert
	}
}

// Metrics returns the relay's metrics.
func (r *Relay) Metrics() *prometheus.Registry { return r.metrics.registry }

// Serve serves /metrics and /healthz until stop is called.
func (r *Relay) Serve(l net.Listener) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.Metrics(), promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if _, problem := r.metrics.current(); problem != "" {
			http.Error(w, problem, http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // until Close
	}()
	return func() { _ = srv.Close(); <-done }
}
