package test

import (
	"net/http"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

const (
	pushTrace   = "0af7651916cd43dd8448eb211c80319c"
	pushSpan    = "b7ad6b7169203331"
	traceparent = "00-" + pushTrace + "-" + pushSpan + "-01"
	otherParent = "00-11111111111111111111111111111111-2222222222222222-01"
	notSampled  = "00-" + pushTrace + "-" + pushSpan + "-00"
)

// pushIn pushes a job within a trace.
func (i *installation) pushIn(t *testing.T, topic, trace string, fields M) {
	t.Helper()
	header := http.Header{"Traceparent": {trace}}
	answer := i.DoHeader(ctx, http.MethodPost, "/v1/topics/"+topic+"/jobs", fields, header)
	if answer.Status != http.StatusCreated {
		t.Fatal(answer)
	}
}

// TestTraceparents: a call carries the trace context of its push, unchanged on each attempt, and else what the headers
// of its topic say. A worker gets it, too.
func TestTraceparents(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	fails := harness.FirstCalls(1, harness.Status(http.StatusServiceUnavailable), harness.Status(http.StatusOK))
	topic := i.topic(t, fails, M{"retry": []string{"0s"}, "headers": M{"traceparent": "the topic's"}})
	in := http.Header{"Traceparent": {traceparent}}
	i.pushIn(t, topic, traceparent, M{"id": "header", "body": 1})
	i.pushIn(t, topic, traceparent, M{"id": "field", "body": 1, "traceparent": otherParent})
	i.pushIn(t, topic, "not one", M{"id": "ignored", "body": 1})
	answer := i.DoHeader(ctx, http.MethodPut, harness.JobPath(topic, "raw"), "text", in)
	if answer.Status != http.StatusCreated {
		t.Error(answer)
	}
	batch := M{"jobs": []M{{"topic": topic, "id": "member", "body": 1},
		{"topic": topic, "id": "own", "body": 1, "traceparent": otherParent}}}
	if answer := i.DoHeader(ctx, http.MethodPost, "/v1/jobs", batch, in); answer.Status != http.StatusOK {
		t.Error(answer)
	}
	if answer := i.Push(ctx, topic, M{"body": 1, "traceparent": "not one"}); answer.Status != http.StatusBadRequest {
		t.Error(answer)
	}
	i.MustPush(t, topic, M{"id": "moved", "body": 1, "delay": "1h", "traceparent": traceparent})
	i.MustDo(t, http.StatusOK, http.MethodPatch, harness.JobPath(topic, "moved"), M{"delay": "0s", "body": 2})
	i.MustPush(t, topic, M{"id": "replaced", "body": 1, "delay": "1h", "traceparent": traceparent})
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/jobs",
		M{"id": "replaced", "body": 2, "on_duplicate": "replace"})
	for id, want := range map[string]string{
		"header": traceparent, "field": otherParent, "ignored": "the topic's", "raw": traceparent,
		"member": traceparent, "own": otherParent, "moved": traceparent, "replaced": "the topic's",
	} {
		i.waitGone(t, topic, id)
		calls := i.endpoint.CallsOf(topic, id)
		for _, c := range calls {
			if got := c.Header.Values("Traceparent"); len(got) != 1 || got[0] != want {
				t.Errorf("%s, attempt %d: the call has the traceparent %q, want %q", id, c.Attempt, got, want)
			}
		}
		if len(calls) != 2 {
			t.Errorf("%s: %d calls", id, len(calls))
		}
		if j := i.MustGet(t, topic, id); want != "the topic's" && j.Traceparent != want {
			t.Errorf("%s: the job has the traceparent %q", id, j.Traceparent)
		}
	}
	i.MustDo(t, http.StatusCreated, http.MethodPost, harness.JobPath(topic, "raw")+"/resend", nil)
	harness.Eventually(t, soon, "the job that is sent again to be called", func() error {
		calls := i.endpoint.CallsOf(topic, "raw")
		return harness.Equal("the traceparent", calls[len(calls)-1].Header.Get("Traceparent"), "the topic's")
	})
	i.MustPutTopic(t, "pulled", M{"delivery": "pull"})
	i.pushIn(t, "pulled", traceparent, M{"id": "1", "body": 1})
	c, err := client.New(client.Options{URL: i.Base, Token: i.Token})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := c.Reserve(ctx, client.Reserve{Topics: []string{"pulled"}, Wait: time.Minute})
	if err != nil || len(jobs) != 1 || jobs[0].Traceparent != traceparent {
		t.Errorf("reserved %+v, %v", jobs, err)
	}
}
