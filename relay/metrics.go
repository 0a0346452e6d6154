package relay

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wakecall/wakecall/internal/observe/relays"
)

// metrics of a relay.
type metrics struct {
	registry                 *prometheus.Registry
	rows                     *prometheus.CounterVec
	oldest, waiting, refused prometheus.Gauge
	problem                  atomic.Value // what hinders the relay, or ""
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.problem.Store("")
	register := promauto.With(m.registry)
	gauge := func(name, help string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m.rows = register.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_relay_rows_total", Help: "Rows by operation and result.",
	}, []string{"op", "result"})
	m.oldest = gauge("wakecall_relay_oldest_row_seconds", "Age of the oldest row that is not set aside.")
	m.waiting = gauge("wakecall_relay_waiting_rows", "Rows that are not set aside.")
	m.refused = gauge("wakecall_relay_set_aside_rows", "Rows that are set aside until they are retried or dropped.")
	return m
}

func (m *metrics) setState(s relays.Report) {
	m.oldest.Set(float64(s.OldestMS) / 1000)
	m.waiting.Set(float64(s.Waiting))
	m.refused.Set(float64(s.SetAside))
}
