package lmstfy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/metrics"
	"github.com/wakecall/wakecall/internal/store"
)

// figures are those of the admin API's /metrics, with lmstfy's names.
type figures struct {
	registry *prometheus.Registry

	latency *prometheus.HistogramVec
	codes   *prometheus.CounterVec
	limited *prometheus.CounterVec

	publishJobs, consumeJobs, respawned *prometheus.CounterVec // by pool
	publishQueue, consumeQueue          *prometheus.CounterVec // by queue
	elapsed, ackElapsed                 *prometheus.HistogramVec

	queues *metrics.Names // with their own series, as POOL/NS/Q
}

// queue returns the labels of a queue. Clients may use a queue for each job, so few have their own.
func (m *figures) queue(r *request, name string) []string {
	labels := []string{r.pool, r.namespace, name}
	if !m.queues.Own(strings.Join(labels, "/")) {
		return []string{r.pool, "other", "other"}
	}
	return labels
}

// release deletes the series of a queue.
func (m *figures) release(name string) {
	labels := strings.Split(name, "/")
	m.publishQueue.DeleteLabelValues(labels...)
	m.consumeQueue.DeleteLabelValues(labels...)
	m.elapsed.DeleteLabelValues(labels...)
	m.ackElapsed.DeleteLabelValues(labels...)
}

var (
	byRequest = []string{"pool", "namespace", "api", "method"}
	byPool    = []string{"pool"}
	byQueue   = []string{"pool", "namespace", "queue"}
	msBuckets = prometheus.ExponentialBuckets(15, 2.5, 9)
)

func newFigures() *figures {
	m := &figures{registry: prometheus.NewRegistry()}
	m.queues = metrics.NewNames(0, m.release)
	counter := func(subsystem, name string, labels []string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "infra", Subsystem: subsystem, Name: name, Help: name + " since the gateway started",
		}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(subsystem, name string, labels []string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "infra", Subsystem: subsystem, Name: name, Help: name, Buckets: msBuckets,
		}, labels)
		m.registry.MustRegister(h)
		return h
	}
	const http, redis = "lmstfy_http", "lmstfy_redis"
	m.latency = histogram(http, "latency_milliseconds", byRequest)
	m.codes = counter(http, "http_codes", append(byRequest, "code"))
	m.limited = counter(http, "rate_limit", []string{"pool", "namespace", "action"})
	m.publishJobs = counter(redis, "publish_jobs", byPool)
	m.consumeJobs = counter(redis, "consume_multi_jobs", byPool)
	m.respawned = counter(redis, "deadletter_respawn_jobs", byPool)
	m.publishQueue = counter(redis, "publish_queue_jobs", byQueue)
	m.consumeQueue = counter(redis, "consume_queue_jobs", byQueue)
	m.elapsed = histogram(redis, "job_elapsed_ms", byQueue)
	m.ackElapsed = histogram(redis, "job_ack_elapsed_ms", byQueue)
	return m
}

func (m *figures) request(r *request, name string, status int, began time.Time) {
	labels := []string{"", "", name, r.Method}
	if r.known != nil { // requests without a valid token must not create series
		labels[0], labels[1] = r.pool, r.namespace
	}
	if status < http.StatusMultipleChoices {
		m.latency.WithLabelValues(labels...).Observe(ms(time.Since(began)))
	}
	m.codes.WithLabelValues(append(labels, strconv.Itoa(status))...).Inc()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m *figures) published(r *request, n int) {
	m.publishJobs.WithLabelValues(r.pool).Add(float64(n))
	m.publishQueue.WithLabelValues(m.queue(r, r.queues[0])...).Add(float64(n))
}

func (m *figures) consumed(r *request, jobs []store.Job) {
	m.consumeJobs.WithLabelValues(r.pool).Add(float64(len(jobs)))
	for i := range jobs {
		labels := m.queue(r, queueOf(jobs[i].Topic))
		m.consumeQueue.WithLabelValues(labels...).Inc()
		m.elapsed.WithLabelValues(labels...).Observe(ms(time.Since(jobs[i].DueAt)))
	}
}

func (m *figures) acked(r *request, created time.Time) {
	m.ackElapsed.WithLabelValues(m.queue(r, r.queues[0])...).Observe(ms(time.Since(created)))
}
