package relay

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a relay.
type metrics struct {
	registry                 *prometheus.Registry
	rows                     *prometheus.CounterVec
	oldest, waiting, refused prometheus.Gauge
	problem                  atomic.Value // what hinders the relay, or ""
}

// State is the state of a table.
type State struct {
	OldestMS int64 // age of the oldest row that is not set aside
	Waiting  int64 // rows that are not set aside
	SetAside int64
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), rows: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_relay_rows_total", Help: "Rows by operation and result.",
	}, []string{"op", "result"})}
	m.problem.Store("")
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		m.registry.MustRegister(g)
		return g
	}
	m.registry.MustRegister(m.rows)
	m.oldest = gauge("wakecall_relay_oldest_row_seconds", "Age of the oldest row that is not set aside.")
	m.waiting = gauge("wakecall_relay_waiting_rows", "Rows that are not set aside.")
	m.refused = gauge("wakecall_relay_set_aside_rows", "Rows that are set aside until they are retried or dropped.")
	return m
}

func (m *metrics) setState(s State) {
	m.oldest.Set(float64(s.OldestMS) / 1000)
	m.waiting.Set(float64(s.Waiting))
	m.refused.Set(float64(s.SetAside))
}
