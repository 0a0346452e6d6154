//wakecall:figures
package server

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/metrics"
	"github.com/wakecall/wakecall/internal/queue/answers"
	"github.com/wakecall/wakecall/internal/store"
)

// Results of pushes, for the metrics.
const (
	resultCreated     = "created"
	resultDuplicate   = "duplicate"
	resultReplaced    = "replaced"
	resultRefused     = "refused"     // malformed, out of range, or the id already exists
	resultUnavailable = "unavailable" // no shard accepted it
	resultUnsafe      = "unsafe"      // stored, but not yet as durably as its topic requires
	resultError       = "error"
)

type counters struct {
	pushes   *metrics.Counter
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	reserved *metrics.Counter
	leases   *prometheus.CounterVec
	waits    *prometheus.CounterVec
}

func newCounters(reg prometheus.Registerer, topics int, hub *answers.Hub) (*counters, error) {
	m := &counters{
		pushes: metrics.New(
			"wakecall_pushes_total", "Jobs pushed through the API, by topic and result.", topics, "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wakecall_http_request_duration_seconds", Help: "Time to answer an API request, by route and status.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method", "route", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "wakecall_http_requests_in_flight", Help: "API requests in progress.",
		}),
	}
	m.reserved = metrics.New("wakecall_reserved_total", "Jobs reserved by workers, by topic or namespace.", topics)
	m.leases = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_leases_total", Help: "Leases ended or extended by workers, by verb and result.",
	}, []string{"verb", "result"})
	m.waits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_push_waits_total", Help: "Pushes that waited for the ends of their jobs, by outcome.",
	}, []string{"outcome"})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wakecall_waiting_pushes", Help: "Pushes waiting for the ends of their jobs.",
	}, func() float64 { return float64(hub.Open()) })
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.pushes, m.duration, m.inFlight, m.reserved, m.leases, m.waits, waiting} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *counters) request(method, route string, code int, took time.Duration) {
	m.duration.WithLabelValues(methodLabel(method), cmp.Or(route, "(none)"), strconv.Itoa(code)).Observe(took.Seconds())
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// taken counts the jobs that workers reserved. label returns the name under which a topic is counted.
func (m *counters) taken(jobs []store.Job, label func(topic string) string) {
	for i := range jobs {
		m.reserved.Inc(label(jobs[i].Topic))
	}
}

// ended counts the end of a lease by a verb of the API.
func (m *counters) ended(verb string, err error) {
	result := "done"
	switch {
	case errors.Is(err, store.ErrLease):
		result = "over"
	case err != nil:
		result = resultUnavailable
	}
	m.leases.WithLabelValues(verb, result).Inc()
}

// label returns the topic label for metrics: the namespace's name if there is one, since clients can create any number
// of topics there.
func (s *Server) label(topic string) string {
	if ns := s.registry.Snapshot().Namespace(topic); ns != nil {
		return ns.Name
	}
	return topic
}

// countPush counts a push of a topic. The topic must be registered, because clients could invent any number of names.
func (s *Server) countPush(topic, result string) { s.metrics.pushes.Inc(s.label(topic), result) }

func storedResult(p *store.Push, r *store.Result) string {
	switch {
	case !r.Duplicate:
		return resultCreated
	case p.OnDuplicate == store.Replace:
		return resultReplaced
	}
	return resultDuplicate
}

func resultOf(err error) string {
	switch p := problemOf(err); {
	case p.Status < http.StatusInternalServerError:
		return resultRefused
	case p.ID != "":
		return resultUnsafe
	case p.Status == http.StatusServiceUnavailable:
		return resultUnavailable
	}
	return resultError
}
