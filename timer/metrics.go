//wakecall:figures
package timer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/store"
)

type metrics struct {
	woken, expired, failures prometheus.Counter
	took, lag                prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		woken:    counter("woken_topics_total", "Topics whose jobs fell due and that got a turn, by priority."),
		expired:  counter("expired_leases_total", "Expired leases whose jobs were returned."),
		failures: counter("failures_total", "Advance steps that failed."),
		took:     histogram("advance_duration_seconds", "Duration of one advance step.", 14),
		lag:      histogram("lag_seconds", "Delay, by Redis's clock, of a step that did what it waited for.", 18),
	}
	if r != nil {
		r.MustRegister(m.woken, m.expired, m.failures, m.took, m.lag)
	}
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "wakecall_timer_" + name, Help: help})
}

func histogram(name, help string, buckets int) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "wakecall_timer_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 2, buckets),
	})
}

// observe counts a step. next is the time of the next event, as returned by the previous step, if any.
func (m *metrics) observe(a store.Advance, next time.Time, took time.Duration) {
	if a.Woken+a.Expired > 0 && !next.IsZero() && !a.Now.Before(next) {
		m.lag.Observe(a.Now.Sub(next).Seconds())
	}
	m.woken.Add(float64(a.Woken))
	m.expired.Add(float64(a.Expired))
	m.took.Observe(took.Seconds())
}
