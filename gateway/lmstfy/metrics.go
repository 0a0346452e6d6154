package lmstfy

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/store"
)

// metrics are those of the admin API's /metrics, with lmstfy's names.
type metrics struct {
	registry *prometheus.Registry

	latency *prometheus.HistogramVec
	codes   *prometheus.CounterVec
	limited *prometheus.CounterVec

	publishJobs, consumeJobs, respawned *prometheus.CounterVec // by pool
	publishQueue, consumeQueue          *prometheus.CounterVec // by queue
	elapsed, ackElapsed                 *prometheus.HistogramVec

	mu     sync.Mutex
	queues map[[3]string]bool // queues with their own series
}

// maxQueues bounds the queues with their own series, because clients may create a queue for each job.
const maxQueues = 1000

// queue returns the labels of a queue.
func (m *metrics) queue(r *request, name string) []string {
	key := [3]string{r.pool, r.namespace, name}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.queues[key] {
		if len(m.queues) >= maxQueues {
			return []string{r.pool, "other", "other"}
		}
		m.queues[key] = true
	}
	return key[:]
}

var (
	byRequest = []string{"pool", "namespace", "api", "method"}
	byPool    = []string{"pool"}
	byQueue   = []string{"pool", "namespace", "queue"}
	msBuckets = prometheus.ExponentialBuckets(15, 2.5, 9)
)

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), queues: map[[3]string]bool{}}
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

func (m *metrics) request(r *request, name string, status int, began time.Time) {
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

func (m *metrics) published(r *request, n int) {
	m.publishJobs.WithLabelValues(r.pool).Add(float64(n))
	m.publishQueue.WithLabelValues(m.queue(r, r.queues[0])...).Add(float64(n))
}

func (m *metrics) consumed(r *request, jobs []store.Job) {
	m.consumeJobs.WithLabelValues(r.pool).Add(float64(len(jobs)))
	for i := range jobs {
		labels := m.queue(r, queueOf(jobs[i].Topic))
		m.consumeQueue.WithLabelValues(labels...).Inc()
		m.elapsed.WithLabelValues(labels...).Observe(ms(time.Since(jobs[i].DueAt)))
	}
}

func (m *metrics) acked(r *request, created time.Time) {
	m.ackElapsed.WithLabelValues(m.queue(r, r.queues[0])...).Observe(ms(time.Since(created)))
}
