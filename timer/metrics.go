package timer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/queue"
)

type metrics struct {
	moved, expired prometheus.Counter
	took           prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		moved:   prometheus.NewCounter(prometheus.CounterOpts{Name: "wakecall_timer_moved_total", Help: "Delayed jobs that became ready."}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{Name: "wakecall_timer_expired_leases_total", Help: "Leases that ran out and were returned."}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wakecall_timer_advance_seconds", Help: "Duration of one advance step.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
		}),
	}
	if r != nil {
		r.MustRegister(m.moved, m.expired, m.took)
	}
	return m
}

func (m *metrics) observe(a queue.Advance, took time.Duration) {
	m.moved.Add(float64(a.Moved))
	m.expired.Add(float64(a.Expired))
	m.took.Observe(took.Seconds())
}
