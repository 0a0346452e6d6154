package tracing

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/collector"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	pushID  = "b7ad6b7169203331"
	sampled = "00-" + traceID + "-" + pushID + "-01"
	dropped = "00-" + traceID + "-" + pushID + "-00"
)

func newTracer(t *testing.T, endpoint string) (*Tracer, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	tracer, err := New(Options{
		Endpoint: endpoint, ParentBelow: 10 * time.Second, Version: "1.2.3", Host: "one",
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, &log
}

func count(c prometheus.Counter) float64 {
	var m dto.Metric
	_ = c.Write(&m) // of a counter: cannot fail
	return m.GetCounter().GetValue()
}

// TestParents: which attempts belong to the trace of the push, which have a trace of their own, and which have no span.
func TestParents(t *testing.T) {
	pushed := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		job           store.Job
		now           time.Duration // after the push
		parent, links bool
		none          bool
	}{
		"due at once": {job: store.Job{Traceparent: sampled, DueAt: pushed}, parent: true},
		"due soon, called late": {job: store.Job{Traceparent: sampled, DueAt: pushed.Add(9 * time.Second)},
			now: time.Hour, parent: true},
		"due later": {job: store.Job{Traceparent: sampled, DueAt: pushed.Add(10 * time.Second)}, links: true},
		"a retry soon": {job: store.Job{Traceparent: sampled, DueAt: pushed, Attempts: 1},
			now: 9 * time.Second, parent: true},
		"a later retry": {job: store.Job{Traceparent: sampled, DueAt: pushed, Attempts: 1},
			now: time.Minute, links: true},
		"again after a snooze": {job: store.Job{Traceparent: sampled, DueAt: pushed, Snoozes: 1},
			now: time.Minute, links: true},
		"the push not sampled":   {job: store.Job{Traceparent: dropped, DueAt: pushed}, none: true},
		"a push without a trace": {job: store.Job{DueAt: pushed}},
	} {
		t.Run(name, func(t *testing.T) {
			spans := collector.Start(t)
			tracer, log := newTracer(t, spans.URL+"/")
			j := c.job
			j.Topic, j.ID, j.CreatedAt = "shop", "1", pushed
			traceparent, end := tracer.Begin(&j, j.Attempts+1, pushed.Add(c.now))
			end(&callback.Outcome{Status: 200, Host: "shop.example"}, "done")
			tracer.Stop()
			if c.none {
				if got := spans.Spans(); len(got) != 0 || traceparent != dropped {
					t.Errorf("spans %v, traceparent %q", got, traceparent)
				}
				return
			}
			got := spans.Spans()
			if len(got) != 1 || log.Len() > 0 {
				t.Fatalf("spans %v, log %q", got, log)
			}
			s := got[0]
			id, trace := fmt.Sprintf("%x", s.GetSpanId()), fmt.Sprintf("%x", s.GetTraceId())
			if traceparent != "00-"+trace+"-"+id+"-01" || id == pushID {
				t.Errorf("traceparent %q of the span %s of %s", traceparent, id, trace)
			}
			parent := fmt.Sprintf("%x", s.GetParentSpanId())
			if (parent == pushID && trace == traceID) != c.parent || !c.parent && (parent != "" || trace == traceID) {
				t.Errorf("trace %s, parent %q", trace, parent)
			}
			if len(s.GetLinks()) != 0 != c.links ||
				c.links && fmt.Sprintf("%x", s.GetLinks()[0].GetSpanId()) != pushID {
				t.Errorf("links %v", s.GetLinks())
			}
		})
	}
}

// TestACollectorThatHangs holds up no attempt, only for a second the end of the process, and what it does not take is
// counted.
func TestACollectorThatHangs(t *testing.T) {
	hangs := collector.StartHanging(t)
	tracer, _ := newTracer(t, hangs.URL+path)
	attempts := func(n int) {
		for range n {
			_, end := tracer.Begin(&store.Job{Topic: "shop", ID: "1"}, 1, time.Now())
			end(&callback.Outcome{Status: 200}, "done")
		}
	}
	attempts(maxExported)
	wait.For(t, "a request to hang", func() bool { return hangs.Requests() > 0 })
	began := time.Now()
	attempts(maxQueued)
	if took := time.Since(began); took > requestLimit {
		t.Errorf("the attempts took %s", took)
	}
	if n := count(tracer.queue.dropped); n != maxExported {
		t.Errorf("%v spans were dropped from a full queue", n)
	}
	began = time.Now()
	tracer.Stop()
	if took := time.Since(began); took > 3*stopLimit {
		t.Errorf("Stop took %s", took)
	}
	wait.For(t, "all spans to be dropped", func() bool { return count(tracer.queue.dropped) == maxExported+maxQueued })
}

// TestComplaints: one a minute.
func TestComplaints(t *testing.T) {
	tracer, log := newTracer(t, "http://127.0.0.1:1")
	defer tracer.Stop()
	for range 3 {
		tracer.queue.complain(errors.New(strings.Repeat("<h1>", 5000)))
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || log.Len() > 1000 {
		t.Errorf("%d lines: %s", n, log)
	}
}

// TestErrorType: of attempts that fail.
func TestErrorType(t *testing.T) {
	for want, o := range map[string]callback.Outcome{
		"":         {Class: callback.Success, Status: 200, Reason: "ok"},
		"503":      {Class: callback.Failure, Status: 503, Reason: "status"},
		"retry_if": {Class: callback.Failure, Status: 200, Reason: "retry_if"},
		"timeout":  {Class: callback.Failure, Reason: "timeout"},
	} {
		got := ""
		for _, a := range ended(&o, "retry") {
			if a.Key == "error.type" {
				got = a.Value.AsString()
			}
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}

// TestOnlyThisPackageUsesTheSDK: what takes, calls and settles jobs has no dependency on OpenTelemetry.
func TestOnlyThisPackageUsesTheSDK(t *testing.T) {
	const module = "github.com/wakecall/wakecall/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"internal/store",
		module+"internal/callback",
		module+"internal/queue/...", module+"internal/journal", module+"dispatcher", module+"server", module+"timer",
		module+"client").Output()
	if err != nil || !strings.Contains(string(out), module+"internal/store\n") {
		t.Fatal(err, string(out))
	}
	for pkg := range strings.Lines(string(out)) {
		if strings.HasPrefix(pkg, "go.opentelemetry.io/") {
			t.Error(pkg)
		}
	}
}
