package jobs_test

import (
	"cmp"
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

// TestATimelineShowsWhatWasSentAndAnswered, with characters in place of their escapes, and only what is known: nothing
// of a request without a response. A viewer, who may not call the endpoint, does not see the signed request.
func TestATimelineShowsWhatWasSentAndAnswered(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 1)
	j := &q.Dead["a"][0]
	j.Body = []byte(`{"name":"\u50ac"}`)
	now := time.Now()
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	j.CreatedAt, j.DueAt, j.DeadAt = now.Add(-4*time.Hour), now.Add(-3*time.Hour), now
	j.History = []store.Attempt{
		{N: 1, StartedAt: ago(time.Hour), Error: "connection refused"},
		{N: 2, StartedAt: ago(time.Minute), Status: 500, TookMS: 7, Answer: `{"message":"\u50ac\u6536","cut":"`},
		{N: 3, StartedAt: ago(time.Second), Status: 502},
	}
	caller, err := callback.New(callback.Options{})
	admintest.Must(t, err)
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Caller = q, caller }).As("ops")
	s.AddTopic("a")
	body := s.Shows("/topics/a/jobs/job-0", "&#34;name&#34;: &#34;催&#34;", "Wakecall-Id: job-0, Wakecall-Attempt: 2<",
		"催收", "Empty response body.", "-X POST http://127.0.0.1:1/hook")
	at := -1
	for _, text := range []string{"Became dead", "Attempt 3", "502", "Attempt 2", "500", "7.0ms", "Attempt 1",
		"connection refused", ">Due<", "Pushed"} {
		i := strings.Index(body[at+1:], text)
		if i < 0 {
			t.Fatalf("after %d, the timeline lacks %s: %s", at, text, body)
		}
		at += 1 + i
	}
	if strings.Contains(body, "Wakecall-Attempt: 1<") {
		t.Error("an attempt without a response shows what was sent")
	}
	body = s.As("look").Shows("/topics/a/jobs/job-0", "催收", "Requires the role operator")
	if strings.Contains(body, "curl") {
		t.Error("a viewer sees the signed request")
	}
}

// TestAttemptsAfterARedriveBeginAtOne: no page of a job that was re-driven has an attempt beyond its limit.
func TestAttemptsAfterARedriveBeginAtOne(t *testing.T) {
	t.Parallel()
	caller, err := callback.New(callback.Options{})
	admintest.Must(t, err)
	attempts := func(numbers ...int) (list []store.Attempt) {
		for i, n := range numbers {
			list = append(list, store.Attempt{N: n, StartedAt: int64(1e12 + i), Status: 500, Error: "status 500"})
		}
		return list
	}
	for name, c := range map[string]struct {
		job   store.Job
		again int // how often the attempts are counted from 1 again
	}{
		"dead":           {store.Job{State: store.Dead, Attempts: 4, History: attempts(1, 2, 3, 4)}, 0},
		"re-driven":      {store.Job{State: store.Ready, History: attempts(1, 2, 3, 4)}, 1},
		"dead again":     {store.Job{State: store.Dead, Attempts: 4, History: attempts(1, 2, 3, 4, 1, 2, 3, 4)}, 1},
		"delivered":      {store.Job{State: store.Finished, Attempts: 4, History: attempts(1, 2, 3, 4, 1, 2, 3, 4)}, 1},
		"the last runs":  {store.Job{State: store.Running, Attempts: 3, History: attempts(1, 2, 3, 4, 1, 2, 3)}, 1},
		"of one attempt": {store.Job{State: store.Dead, MaxAttempts: 1, Attempts: 1, History: attempts(1, 1)}, 1},
		"after a snooze": {
			store.Job{State: store.Finished, Attempts: 1, History: []store.Attempt{{N: 1, Status: 202}, {N: 1}}}, 0,
		},
		"the limit fell":  {store.Job{State: store.Dead, MaxAttempts: 4, Attempts: 5, History: attempts(4, 5)}, 0},
		"snoozed, so far": {store.Job{State: store.Delayed, Snoozes: 1, History: []store.Attempt{{N: 1, Status: 202}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := admintest.NewDeadQueue("a", 1)
			j := &c.job
			j.Topic, j.ID, j.MaxAttempts, j.Body = "a", "job-0", cmp.Or(j.MaxAttempts, 4), []byte("1")
			q.Dead["a"][0] = *j
			s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Caller = q, caller }).As("ops")
			s.AddTopic("a")
			body := s.Shows("/topics/a/jobs/job-0", "Timeline")
			if n := strings.Count(body, "Attempts count from 1 again"); n != c.again {
				t.Errorf("attempts are counted again %d times, want %d", n, c.again)
			}
			if wrong := regexp.MustCompile(`Wakecall-Attempt: 5[^<]|5 / 4`).FindString(body); wrong != "" {
				t.Errorf("the page says %q", wrong)
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
