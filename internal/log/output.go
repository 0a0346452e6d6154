package log

import (
	"bytes"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stderr is standard error for processes that run until they are stopped.
var Stderr = NewOutput(os.Stderr)

// Own makes Stderr the output of the standard library's log, too, which dependencies use.
func Own() { stdlog.SetOutput(Stderr) }

// Limits of an Output.
const (
	maxWaiting  = 1 << 20                // bytes that wait for their reader
	closeWithin = 500 * time.Millisecond // wait of Close for a reader that does not read
)

// Output writes to w in a goroutine, so that nobody waits for the reader of w, such as a log driver that is blocked.
// When maxWaiting bytes wait, it drops and counts what follows until all of them are written.
type Output struct {
	w io.Writer

	mu      sync.Mutex
	lines   [][]byte
	waiting int            // bytes of lines, and of the line that is being written
	missing int            // dropped since the last gap was reported
	dropped int            // in all
	report  func(lost int) // logs a gap
	idle    chan struct{}  // closed when everything is written; nil: it is
}

// NewOutput returns an Output to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w, report: func(int) {}} }

// Write implements io.Writer. It never waits, and returns no error.
func (o *Output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missing > 0 || o.waiting >= maxWaiting {
		o.missing++
		o.dropped++
		return len(line), nil
	}
	o.lines = append(o.lines, bytes.Clone(line))
	o.waiting += len(line)
	if o.idle == nil {
		o.idle = make(chan struct{})
		go o.drain() // until everything is written; Close waits for it
	}
	return len(line), nil
}

// drain writes what waits, and reports a gap after everything before it.
func (o *Output) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.lines) > 0 {
		line := o.lines[0]
		o.lines = o.lines[1:]
		o.mu.Unlock()
		_, _ = o.w.Write(line) // there is no other place for its error
		o.mu.Lock()
		o.waiting -= len(line)
		if lost, report := o.missing, o.report; lost > 0 && len(o.lines) == 0 {
			o.missing = 0
			o.mu.Unlock()
			report(lost)
			o.mu.Lock()
		}
	}
	close(o.idle)
	o.idle = nil
}

// setReport makes log, which writes to o, report gaps: as an error, so that every log.level shows it.
func (o *Output) setReport(log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report = func(lost int) { log.Error("lines of the log were dropped: nobody read them", "lines", lost) }
}

// Close waits until everything is written, but not for a reader that does not read.
func (o *Output) Close() {
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(closeWithin):
	}
}

// Dropped returns the metric of the dropped lines.
func (o *Output) Dropped() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "wakecall_log_dropped_lines_total",
		Help: "Lines of the log that the process dropped because nobody read its standard error.",
	}, func() float64 {
		o.mu.Lock()
		defer o.mu.Unlock()
		return float64(o.dropped)
	})
}
