package relay

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a relay, for Prometheus.
type Metrics struct {
	Registry *prometheus.Registry
	rows     *prometheus.CounterVec

	mu    sync.Mutex
	state State
	err   string
}

// State is what a relay knows about its table.
type State struct {
	OldestMS int64 // age of the oldest row that is not set aside
	Waiting  int64 // rows that are not set aside
	SetAside int64
}

func newMetrics() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), rows: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_relay_rows_total", Help: "Rows by operation and result.",
	}, []string{"op", "result"})}
	gauge := func(name, help string, value func(State) float64) {
		m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(m.State()) }))
	}
	m.Registry.MustRegister(m.rows)
	gauge("wakecall_relay_oldest_row_seconds", "Age of the oldest row that is not set aside.",
		func(s State) float64 { return float64(s.OldestMS) / 1000 })
	gauge("wakecall_relay_waiting_rows", "Rows that are not set aside.",
		func(s State) float64 { return float64(s.Waiting) })
	gauge("wakecall_relay_set_aside_rows", "Rows that are set aside until they are retried or dropped.",
		func(s State) float64 { return float64(s.SetAside) })
	return m
}

// State returns the last state that was read.
func (m *Metrics) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func (m *Metrics) setState(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

func (m *Metrics) setError(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = ""
	if err != nil {
		m.err = err.Error()
	}
}

// Err returns the error of the last round, or "".
func (m *Metrics) Err() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

var knownOps = map[string]bool{opPush: true, opChange: true, opDelete: true, opCancelGroup: true}

func (m *Metrics) count(o *outcome) {
	op := o.row.Op
	if !knownOps[op] {
		op = "unknown" // a service may write anything
	}
	if o.result != resultNotCalled {
		m.rows.WithLabelValues(op, o.result).Inc()
	}
}
