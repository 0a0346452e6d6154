package jobs_test

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

func TestAJobIsFoundShownAndChanged(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("ops")
	if _, body := s.Post("/push", "topic", "shop.close", "id", "order/42", "body", `{"n": 1}`, "delay",
		"1h"); !strings.Contains(body, "&#34;n&#34;: 1") {
		t.Errorf("after the push: %s", body)
	}
	path := "/topics/shop.close/jobs/order%2F42"
	if _, body := s.Get("/search?id=order/42"); !strings.Contains(body, "order/42") ||
		!strings.Contains(body, "127.0.0.1") && !strings.Contains(body, "Due") {
		t.Errorf("the search: %s", body)
	}
	wait.For(t, "all jobs to be searched at once", func() bool { // a busy machine continues the search after the page
		_, body := s.Get("/search?id=nothing")
		return strings.Contains(body, "No results")
	})
	s.Post(path, "do", "due", "due_at", "2031-01-02T03:04")
	if j, err := q.Get(t.Context(), "shop.close", "order/42"); err != nil || j.DueAt.Year() != 2031 {
		t.Errorf("after the change %+v, %v", j, err)
	}
	if _, body := s.Post(path, "do", "due", "due_at", "tomorrow"); !strings.Contains(body, "is not a time") {
		t.Errorf("a wrong time: %s", body)
	}
	s.Post(path, "do", "run")
	if j, _ := q.Get(t.Context(), "shop.close", "order/42"); j == nil || j.State != store.Ready {
		t.Errorf("after run it is %+v", j)
	}
	s.Post(path, "do", "delete")
	if status, _ := s.Get(path); status != http.StatusNotFound {
		t.Errorf("after it was deleted: %d", status)
	}
	if status, _ := s.As("look").Post(path, "do", "run"); status != http.StatusForbidden {
		t.Errorf("a viewer may run jobs: %d", status)
	}
}

// TestAJobShowsItsRequestBesideTheAnswer, with characters in place of their escapes. A viewer, who may not call the
// endpoint, does not see the signed request.
func TestAJobShowsItsRequestBesideTheAnswer(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 1)
	j := &q.Dead["a"][0]
	j.Body = []byte(`{"name":"\u50ac"}`)
	j.History[0].Status, j.History[0].Answer = 500, `{"message":"\u50ac\u6536","cut":"`
	caller, err := callback.New(callback.Options{})
	admintest.Must(t, err)
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Caller = q, caller }).As("ops")
	s.AddTopic("a")
	s.Shows("/topics/a/jobs/job-0", "POST http://127.0.0.1:1/hook\n", "Wakecall-Id: job-0", "&#34;name&#34;: &#34;催&#34;",
		"Last response", "催收")
	if body := s.As("look").Shows("/topics/a/jobs/job-0", "催收"); strings.Contains(body, "Wakecall-Id") {
		t.Error("a viewer sees the signed request")
	}
}

// TestAJobsRequestAndResponseAreThoseOfItsState: a job that was never called has no response, not an empty one, an
// attempt without a response has none either, and a dead job is called again with all its attempts.
func TestAJobsRequestAndResponseAreThoseOfItsState(t *testing.T) {
	t.Parallel()
	caller, err := callback.New(callback.Options{})
	admintest.Must(t, err)
	for name, c := range map[string]struct {
		change       func(*store.Job)
		says, denies string
	}{
		"never called":   {func(j *store.Job) { j.History, j.Attempts = nil, 0 }, "No attempt yet.", "Empty response"},
		"no response":    {func(*store.Job) {}, "No response.", "Empty response"},
		"an empty one":   {func(j *store.Job) { j.History[0].Status = 500 }, "Empty response body.", "No response"},
		"a dead job":     {func(*store.Job) {}, "Wakecall-Attempt: 1\n", "Wakecall-Attempt: 4"},
		"a job to retry": {func(j *store.Job) { j.State = store.Delayed }, "Wakecall-Attempt: 4\n", "Attempt: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := admintest.NewDeadQueue("a", 1)
			c.change(&q.Dead["a"][0])
			s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Caller = q, caller }).As("ops")
			s.AddTopic("a")
			if body := s.Shows("/topics/a/jobs/job-0", c.says); strings.Contains(body, c.denies) {
				t.Errorf("the page says %q", c.denies)
			}
		})
	}
}

// TestAJobShowsItsKeptResult, which is longer than what an attempt keeps of a response, and the trace of its push.
func TestAJobShowsItsKeptResult(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 1)
	j := &q.Dead["a"][0]
	j.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	j.State, j.FinishedAt = store.Finished, time.Now()
	j.History[0].Status, j.History[0].Answer = 200, `{"paid":"beg`
	j.Answer = store.EndpointAnswer(200, "application/json", []byte(`{"paid":"\u50ac, to the end"}`), false)
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = q }).As("look")
	s.AddTopic("a")
	const page = "/topics/a/jobs/job-0"
	body := s.Shows(page, ">4bf92f3577b34da6a3ce929d0e0e4736<", "Result", "application/json",
		"{\n  &#34;paid&#34;: &#34;催, to the end&#34;\n}")
	if strings.Contains(body, "Only its beginning was kept") {
		t.Error("a whole result is shown as truncated")
	}
	j.Answer = store.EndpointAnswer(200, "", []byte{0xff, 0, 1, 2, 3}, true)
	s.Shows(page, "00000000  ff 00 01 02 03", "Only its beginning was kept")
	topic := registry.NewTopic("a")
	topic.Delivery = registry.DeliveryPull
	_, err := s.Registry.PutTopic(t.Context(), "test", topic)
	admintest.Must(t, err)
	j.Answer, j.History, j.Traceparent = store.WorkerAnswer([]byte(`{"frames":240}`)), nil, ""
	if body := s.Shows(page, "{\n  &#34;frames&#34;: 240\n}"); strings.Contains(body, "Trace ID") {
		t.Error("a job without a trace shows one")
	}
}

// TestThePageOfAJobRefreshesItself: after an event it requests its fragments again, but the result of the last action
// is shown on the next page.
func TestThePageOfAJobRefreshesItself(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("ops")
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "shop.close", ID: "one", Body: []byte(`{}`),
		Delay: time.Hour}).Err)
	mark := regexp.MustCompile(`/jobs/one\?was=([^"]+)"`).FindStringSubmatch(s.Shows("/topics/shop.close/jobs/one"))
	ask := func() (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			s.URL+"/topics/shop.close/jobs/one?was="+mark[1], nil)
		admintest.Must(t, err)
		r.Header.Set("HX-Request", "true")
		return s.Send(r)
	}
	if status, _ := ask(); status != http.StatusNoContent {
		t.Errorf("without an event, the answer is %d", status)
	}
	follow := s.Client.CheckRedirect
	s.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.Post("/topics/shop.close/jobs/one", "do", "run")
	s.Client.CheckRedirect = follow
	if status, body := ask(); status != http.StatusOK || !strings.Contains(body, `id="wk-head"`) ||
		!strings.Contains(body, `id="wk-body"`) {
		t.Errorf("the fragments are %d", status)
	}
	s.Shows("/topics/shop.close/jobs/one", "one is now due.")
}

// TestAJobIsTakenAwayFromItsWorker manually: released, or made dead. A dispatcher's job is not.
func TestAJobIsTakenAwayFromItsWorker(t *testing.T) {
	t.Parallel()
	q := admintest.RealQueue(t)
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = observe.Figures{Queue: q} }).As("ops")
	topic := registry.NewTopic("jobs")
	topic.Delivery = registry.DeliveryPull
	_, err := s.Registry.PutTopic(t.Context(), "test", topic)
	admintest.Must(t, err)
	admintest.Must(t, q.SetTopics(t.Context(),
		slices.Values([]store.TopicConf{{Name: "jobs", Pull: true, TTR: time.Hour, MaxAttempts: 3}})))
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "jobs", ID: "x", Body: []byte(`{}`)}).Err)
	const page = "/topics/jobs/jobs/x"
	take := func() store.Job {
		jobs, err := q.Take(t.Context(), store.TakeRequest{Topics: []string{"jobs"}, Max: 1})
		admintest.Must(t, err)
		if len(jobs) != 1 {
			t.Fatalf("took %+v", jobs)
		}
		return jobs[0]
	}
	first := take()
	s.Shows("/topics/jobs?tab=jobs&state=running", "Leased until", ">x<")
	s.Shows(page, `value="release"`, `value="bury"`)
	if _, body := s.Post(page, "do", "release"); !strings.Contains(body, "was released") {
		t.Errorf("release: %s", body)
	}
	if d := q.End(t.Context(), []store.End{{Lease: first.Lease, Verb: store.Done}})[0]; !errors.Is(d.Err, store.ErrLease) {
		t.Errorf("the worker's ack: %+v", d)
	}
	if j := take(); j.Lease.Attempt != 1 {
		t.Errorf("after a release attempt %d", j.Lease.Attempt)
	}
	s.Post(page, "do", "bury")
	if j, err := q.Get(t.Context(), "jobs", "x"); err != nil || j.State != store.Dead || j.DeadReason != "buried" {
		t.Errorf("buried: %+v, %v", j, err)
	}
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "shop.close", ID: "y", Body: []byte(`{}`)}).Err)
	if _, body := s.Post("/topics/shop.close/jobs/y", "do", "bury"); strings.Contains(body, "is dead") {
		t.Errorf("a push topic's job was buried: %s", body)
	}
}
