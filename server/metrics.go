package server

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxTopicLabels is how many topics have metrics of their own; the others share one.
const maxTopicLabels = 1000

const otherTopics = "(other)"

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
	pushes   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge

	mu     sync.RWMutex
	topics map[string]map[string]prometheus.Counter // by topic and result
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		topics: map[string]map[string]prometheus.Counter{},
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wakecall_pushes_total", Help: "Jobs pushed through the API, by topic and result.",
		}, []string{"topic", "result"}),
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

// pushed counts a push. topic must be in the registry, since a client could make up any number of labels.
func (m *metrics) pushed(topic, result string) {
	m.mu.RLock()
	counter := m.topics[topic][result]
	m.mu.RUnlock()
	if counter == nil {
		counter = m.counter(topic, result)
	}
	counter.Inc()
}

func (m *metrics) counter(topic, result string) prometheus.Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.topics[topic] == nil {
		if len(m.topics) >= maxTopicLabels {
			return m.pushes.WithLabelValues(otherTopics, result)
		}
		m.topics[topic] = map[string]prometheus.Counter{}
	}
	counter := m.pushes.WithLabelValues(topic, result)
	m.topics[topic][result] = counter
	return counter
}

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
