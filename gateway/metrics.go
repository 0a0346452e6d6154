package gateway

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/store"
)

// Results of requests, for the metrics.
const (
	Done        = "done"
	Refused     = "refused"     // the request is invalid, or its topic or job does not exist
	Unavailable = "unavailable" // not accepted by a shard, or by the journal
)

// ResultOf returns the result of a request from its error, which may be nil.
func ResultOf(err error) string {
	var away *store.UnavailableError
	switch {
	case err == nil:
		return Done
	case errors.As(err, &away):
		return Unavailable
	}
	return Refused
}

// Metrics are the metrics of all protocols of a process.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	conns    *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wakecall_gateway_requests_total", Help: "Requests to gateways by result.",
		}, []string{"protocol", "command", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wakecall_gateway_request_duration_seconds", Help: "Time to answer a request to a gateway.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"protocol", "command"}),
		conns: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "wakecall_gateway_connections", Help: "Open connections of a gateway.",
		}, []string{"protocol"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.conns} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
