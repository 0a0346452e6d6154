package test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/collector"
	"github.com/wakecall/wakecall/test/harness"
)

// TestTracingOfAttempts: each of three attempts has a span, whose trace context its call carries. A job that is due at
// once is in the trace of its push; one that is due later has a link to it.
func TestTracingOfAttempts(t *testing.T) {
	t.Parallel()
	spans := collector.Start(t)
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_TRACING_ENDPOINT": spans.URL}})
	fails := harness.FirstCalls(2, harness.Status(http.StatusServiceUnavailable), harness.Status(http.StatusOK))
	topic := i.topic(t, fails, M{"retry": []string{"0s"}, "headers": M{"traceparent": otherParent}})
	i.pushIn(t, topic, traceparent, M{"id": "now", "body": 1})
	i.pushIn(t, topic, traceparent, M{"id": "later", "body": 1, "delay": "11s"})
	i.pushIn(t, topic, notSampled, M{"id": "not sampled", "body": 1})
	i.MustPush(t, topic, M{"id": "alone", "body": 1})
	i.endpoint.WaitCalls(t, topic, 12)
	i.Signal(syscall.SIGTERM) // what waits is exported at the end
	i.WaitExit()
	byJob := map[string][]collector.Span{}
	for _, s := range spans.Spans() {
		id, _ := collector.Attributes(s.GetAttributes())["messaging.message.id"].(string)
		byJob[id] = append(byJob[id], s)
	}
	for _, id := range []string{"now", "later", "alone"} {
		calls := i.endpoint.CallsOf(topic, id)
		if len(byJob[id]) != 3 || len(calls) != 3 {
			t.Fatalf("%s: %d spans and %d calls", id, len(byJob[id]), len(calls))
		}
		for n, s := range byJob[id] {
			i.hasSpan(t, calls[n], s, n+1)
			trace, parent, link := fmt.Sprintf("%x", s.GetTraceId()), fmt.Sprintf("%x", s.GetParentSpanId()), ""
			if links := s.GetLinks(); len(links) == 1 {
				link = fmt.Sprintf("%x-%x", links[0].GetTraceId(), links[0].GetSpanId())
			}
			began := time.Unix(0, int64(s.GetStartTimeUnixNano()))
			isChild, isLinked := trace == pushTrace && parent == pushSpan,
				link == pushTrace+"-"+pushSpan && parent == ""
			switch {
			case id == "alone" && (parent != "" || link != ""),
				id == "later" && (!isLinked || trace == pushTrace),
				id == "now" && n == 0 && !isChild,
				id == "now" && !isChild && !isLinked, // retries may be late
				id == "now" && isLinked && began.Sub(calls[0].DueAt) < 9*time.Second:
				t.Errorf("%s, attempt %d: trace %s, parent %q, link %q", id, n+1, trace, parent, link)
			}
		}
	}
	if len(byJob["not sampled"]) != 0 {
		t.Error("spans of a push that was not sampled:", byJob["not sampled"])
	}
	for _, c := range i.endpoint.CallsOf(topic, "not sampled") {
		if got := c.Header.Get("Traceparent"); got != notSampled {
			t.Errorf("its call has the traceparent %q", got)
		}
	}
}

// hasSpan checks that a span is of a call, and what it says.
func (i *installation) hasSpan(t *testing.T, c harness.Call, s collector.Span, attempt int) {
	t.Helper()
	want := fmt.Sprintf("00-%x-%x-01", s.GetTraceId(), s.GetSpanId())
	if got := c.Header.Values("Traceparent"); len(got) != 1 || got[0] != want {
		t.Errorf("the call has the traceparent %q, want %q", got, want)
	}
	host, _ := url.Parse(i.endpoint.URL("/"))
	status, outcome, code := http.StatusOK, "done", "STATUS_CODE_UNSET"
	if attempt < 3 {
		status, outcome, code = http.StatusServiceUnavailable, "retry", "STATUS_CODE_ERROR"
	}
	got := collector.Attributes(s.GetAttributes())
	for name, want := range map[string]any{
		"messaging.system": "wakecall", "messaging.destination.name": c.Topic, "messaging.message.id": c.ID,
		"messaging.operation.name": "deliver", "messaging.operation.type": "send",
		"wakecall.attempt": int64(attempt), "wakecall.outcome": outcome,
		"server.address": host.Hostname(), "http.response.status_code": int64(status),
	} {
		if fmt.Sprint(got[name]) != fmt.Sprint(want) {
			t.Errorf("attempt %d: %s is %v, want %v", attempt, name, got[name], want)
		}
	}
	if (got["error.type"] == "503") != (attempt < 3) || s.GetStatus().GetCode().String() != code {
		t.Errorf("attempt %d: error.type %v, status %s", attempt, got["error.type"], s.GetStatus())
	}
	if kind := s.GetKind().String(); kind != "SPAN_KIND_CLIENT" || s.GetName() != "deliver "+c.Topic {
		t.Errorf("span %q of the kind %s", s.GetName(), kind)
	}
	if s.Resource["service.name"] != "wakecall" || !strings.HasPrefix(s.Schema, "https://opentelemetry.io/schemas/") {
		t.Errorf("resource %v, schema %q", s.Resource, s.Schema)
	}
}

// TestTracingWithACollectorThatHangs: all jobs are called in time, and the log says once a minute what is wrong.
func TestTracingWithACollectorThatHangs(t *testing.T) {
	t.Parallel()
	hangs := collector.StartHanging(t)
	i := start(t, harness.Options{Env: map[string]string{
		"WAKECALL_TRACING_ENDPOINT": hangs.URL, "WAKECALL_DISPATCHERS": "1",
	}})
	topic := i.topic(t, nil, nil)
	const first, rest = 600, 5000 // more than the spans of a request, and than the queue holds
	pushAll := func(name string, n int) (pushed time.Time) {
		for from := 0; from < n; from += 500 {
			var batch []M
			for k := from; k < min(n, from+500); k++ {
				batch = append(batch, M{"topic": topic, "id": fmt.Sprintf("%s-%d", name, k), "body": k})
			}
			i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": batch})
		}
		return time.Now()
	}
	pushAll("first", first)
	harness.Eventually(t, soon, "a request to hang", func() error {
		return harness.Equal("it", hangs.Requests() > 0, true)
	})
	pushed := pushAll("rest", rest)
	calls := i.endpoint.WaitCalls(t, topic, first+rest)
	if late := calls[len(calls)-1].At.Sub(pushed); late > busy {
		t.Errorf("the last job was called %s after its push", late)
	}
	harness.Eventually(t, soon, "dropped spans to be counted and told", func() error {
		var dropped float64
		for _, m := range scrape(t, i)["wakecall_spans_total"].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "dropped" {
					dropped += m.GetCounter().GetValue()
				}
			}
		}
		if dropped == 0 {
			return fmt.Errorf("none is counted")
		}
		return harness.Equal("told", strings.Contains(i.Log(1<<20), "spans dropped"), true)
	})
	i.Signal(syscall.SIGTERM)
	if code := i.WaitExit(); code != 0 {
		t.Error("exit code", code)
	}
	if n := strings.Count(i.Log(1<<20), "spans dropped"); n > 2 {
		t.Errorf("%d lines of the log are about dropped spans", n)
	}
}
