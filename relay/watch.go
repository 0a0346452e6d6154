package relay

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/pause"
)

const watchEvery = 5 * time.Second

// unsafeInName are the bytes that the name of a report cannot have.
var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// watch reads the state of the table for the metrics, and reports it to Wakecall, until ctx is done.
func (r *Relay) watch(ctx context.Context) {
	s := relays.Report{}
	for {
		if now, err := r.Table.State(ctx); err == nil {
			s = now
			r.metrics.setState(s)
			if s.Waiting == 0 { // another relay has carried the row that was not accepted, or it was dropped
				r.metrics.problem.Store("")
			}
		}
		if err := r.report(ctx, s); err != nil && ctx.Err() == nil {
			r.Log.Debug("report to Wakecall", "error", err)
		}
		if !pause.For(ctx, watchEvery) {
			r.withdraw(ctx)
			return
		}
	}
}

// report tells Wakecall about the table, for the alert.
func (r *Relay) report(ctx context.Context, s relays.Report) error {
	s.Error = clip(r.Problem())
	body, _ := json.Marshal(s) // it cannot fail
	return r.send(ctx, http.MethodPut, "/v1/relays/"+r.Name, body, nil)
}

// withdraw deletes the report of a table without rows, so that the end of its last relay is no alert. Another relay of
// the table reports again within watchEvery.
func (r *Relay) withdraw(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if s, err := r.Table.State(ctx); err == nil && s.Waiting+s.SetAside == 0 {
		_ = r.send(ctx, http.MethodDelete, "/v1/relays/"+r.Name, nil, nil) // at worst, there is an alert
	}
}

// Problem is what hinders the relay, or "".
func (r *Relay) Problem() string { return r.metrics.problem.Load().(string) }

// Metrics returns the relay's metrics.
func (r *Relay) Metrics() *prometheus.Registry { return r.metrics.registry }
