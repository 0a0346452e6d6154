package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/wakecall/wakecall/topicmetric"
)

// Results of pushes, for the metrics.
const (
	resultCreated     = "created"
	resultDuplicate   = "duplicate"
	resultReplaced    = "replaced"
	resultRefused     = "refused"     // malformed, out of range, or the id already exists
	resultUnavailable = "unavailable" // no shard took it
	resultUnsafe      = "unsafe"      // stored, but not yet as durably as its topic asks
	resultError       = "error"
)

type metrics struct {
	pushes   *topicmetric.Counter
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, topics int) (*metrics, error) {
	m := &metrics{
		pushes: topicmetric.New("wakecall_pushes_total", "Jobs pushed through the API, by topic and result.", topics, "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wakecall_http_request_duration_seconds", Help: "Time to answer a request of the API, by route and status.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method", "route", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "wakecall_http_requests_in_flight", Help: "Requests of the API under way.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.pushes, m.duration, m.inFlight} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// pushed counts a push. topic must be in the registry, so that nobody can make up series.
func (m *metrics) pushed(topic, result string) { m.pushes.Inc(topic, result) }

func (m *metrics) request(method, route string, code int, took time.Duration) {
	if route == "" {
		route = "(none)"
	}
	m.duration.WithLabelValues(methodLabel(method), route, strconv.Itoa(code)).Observe(took.Seconds())
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
