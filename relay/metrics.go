package relay

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a relay, for Prometheus and for its reports.
type metrics struct {
	registry *prometheus.Registry
	rows     *prometheus.CounterVec

	mu      sync.Mutex
	state   State
	problem string
}

// State is what a relay knows about its table.
type State struct {
	OldestMS int64 // age of the oldest row that is not set aside
	Waiting  int64 // rows that are not set aside
	SetAside int64
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), rows: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_relay_rows_total", Help: "Rows by operation and result.",
	}, []string{"op", "result"})}
	gauge := func(name, help string, value func(State) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { s, _ := m.current(); return value(s) }))
	}
	m.registry.MustRegister(m.rows)
	gauge("wakecall_relay_oldest_row_seconds", "Age of the oldest row that is not set aside.",
		func(s State) float64 { return float64(s.OldestMS) / 1000 })
	gauge("wakecall_relay_waiting_rows", "Rows that are not set aside.",
		func(s State) float64 { return float64(s.Waiting) })
	gauge("wakecall_relay_set_aside_rows", "Rows that are set aside until they are retried or dropped.",
		func(s State) float64 { return float64(s.SetAside) })
	return m
}

// current returns the last state that was read, and what hinders the relay, or "".
func (m *metrics) current() (State, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.problem
}

func (m *metrics) setState(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

func (m *metrics) setProblem(problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problem = problem
}

var knownOps = map[string]bool{opPush: true, opChange: true, opDelete: true, opCancelGroup: true}

func (m *metrics) count(o *outcome) {
	op := o.row.Op
	if !knownOps[op] {
		op = "unknown" // a service may write anything
	}
	if o.result != resultNotCalled {
		m.rows.WithLabelValues(op, o.result).Inc()
	}
}
