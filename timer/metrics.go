package timer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/queue"
)

type metrics struct {
	moved, expired, failures prometheus.Counter
	took, lag                prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		moved:   prometheus.NewCounter(prometheus.CounterOpts{Name: "wakecall_timer_moved_total", Help: "Delayed jobs that became ready."}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{Name: "wakecall_timer_expired_leases_total", Help: "Leases that ran out and were returned."}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wakecall_timer_advance_seconds", Help: "Duration of one advance step.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "wakecall_timer_failures_total", Help: "Advance steps that failed."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wakecall_timer_lag_seconds", Help: "How late by Redis's clock a step came that moved what it was waiting for.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}),
	}
	if r != nil {
		r.MustRegister(m.moved, m.expired, m.failures, m.took, m.lag)
	}
	return m
}

// observe notes a step; next is the moment that the one before it named, if any.
func (m *metrics) observe(a queue.Advance, next time.Time, took time.Duration) {
	if a.Moved+a.Expired > 0 && !next.IsZero() && !a.Now.Before(next) {
		m.lag.Observe(a.Now.Sub(next).Seconds())
	}
	m.moved.Add(float64(a.Moved))
	m.expired.Add(float64(a.Expired))
	m.took.Observe(took.Seconds())
}
