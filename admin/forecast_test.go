package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// PastRates is a history with callbacks at a constant rate while jobs were waiting.
type PastRates struct{ Rate, Ready float64 }

func (h PastRates) Series(_ context.Context, series, span string) (history.Points, error) {
	half := h.Rate / 2
	return history.Points{Series: series, Span: span, Step: 60, Times: []int64{1000, 1060}, Values: map[string][]*float64{
		"delivered": {&half, &h.Rate}, "failed": {nil, nil}, "ready": {nil, &h.Ready},
	}}, nil
}

// TestAJobIsTakenAwayFromItsWorker manually: released, or made dead. A dispatcher's job is not.
func TestAJobIsTakenAwayFromItsWorker(t *testing.T) {
	t.Parallel()
	q := realQueue(t)
	s := open(t, func(o *Options) { o.Queue = q }).as("ops")
	topic := registry.NewTopic("jobs")
	topic.Delivery = registry.DeliveryPull
	_, err := s.registry.PutTopic(t.Context(), "test", topic)
	must(t, err)
	must(t, q.SetTopics(t.Context(),
		slices.Values([]queue.TopicConf{{Name: "jobs", Pull: true, TTR: time.Hour, MaxAttempts: 3}})))
	must(t, q.Push(t.Context(), queue.Push{Topic: "jobs", ID: "x", Body: []byte(`{}`)}).Err)
	const page = "/topics/jobs/jobs/x"
	take := func() queue.Leased {
		jobs, err := q.Take(t.Context(), queue.TakeRequest{Topics: []string{"jobs"}, Max: 1})
		must(t, err)
		if len(jobs) != 1 {
			t.Fatalf("took %+v", jobs)
		}
		return jobs[0]
	}
	first := take()
	s.shows("/topics/jobs?tab=jobs&state=running", "Leased until", ">x<")
	s.shows(page, `value="release"`, `value="bury"`)
	if _, body := s.post(page, "do", "release"); !strings.Contains(body, "was released") {
		t.Errorf("release: %s", body)
	}
	if d := q.End(t.Context(), []queue.Ending{{Lease: first.Lease}})[0]; !errors.Is(d.Err, queue.ErrLease) {
		t.Errorf("the worker's ack: %+v", d)
	}
	if j := take(); j.Attempt != 1 {
		t.Errorf("after a release attempt %d", j.Attempt)
	}
	s.post(page, "do", "bury")
	if j, err := q.Get(t.Context(), "jobs", "x"); err != nil || j.State != queue.Dead || j.DeadReason != "buried" {
		t.Errorf("buried: %+v, %v", j, err)
	}
	must(t, q.Push(t.Context(), queue.Push{Topic: "shop.close", ID: "y", Body: []byte(`{}`)}).Err)
	if _, body := s.post("/topics/shop.close/jobs/y", "do", "bury"); strings.Contains(body, "is dead") {
		t.Errorf("a push topic's job was buried: %s", body)
	}
}

// TestANamespaceHasNoForecast, because its topics are created by use.
func TestANamespaceHasNoForecast(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("look")
	topic := registry.NewTopic("made.*")
	topic.Delivery = registry.DeliveryPull
	_, err := s.registry.PutTopic(t.Context(), "test", topic)
	must(t, err)
	if body := s.shows("/topics/made.*?tab=forecast", "No forecast"); strings.Contains(body, "wk-chart") {
		t.Error("a namespace has a chart")
	}
}

// TestThePagesSayHowLateJobsWillBe for push and pull topics. A rate limit is certain, and the overview shows the topics
// that it makes late. A measured rate is only a hint on the topic's page; for a pull topic, more workers may raise it.
func TestThePagesSayHowLateJobsWillBe(t *testing.T) {
	t.Parallel()
	q := realQueue(t)
	s := open(t, func(o *Options) {
		o.Queue = q
		o.History = PastRates{Rate: 0.3, Ready: 50}
	}).as("look")
	for name, limit := range map[string]float64{"shop.close": 1, "jobs.limited": 1, "jobs.free": 0} {
		topic := registry.NewTopic(name)
		topic.CallbackURL, topic.RateLimit = "http://127.0.0.1:1/hook", limit
		if strings.HasPrefix(name, "jobs.") {
			topic.CallbackURL, topic.Delivery = "", registry.DeliveryPull
		}
		_, err := s.registry.PutTopic(t.Context(), "test", topic)
		must(t, err)
		var pushes []queue.Push
		for i := range 600 {
			pushes = append(pushes,
				queue.Push{Topic: name, ID: fmt.Sprint(i), Body: []byte(`{}`), Delay: 10 * time.Minute})
		}
		for _, r := range q.PushBatch(t.Context(), pushes) {
			must(t, r.Err)
		}
	}
	// By the numbers of each minute: all jobs may be in one minute, or some in the next one.
	late := regexp.MustCompile(`(9 to 12|8 to 11) min`)
	for _, name := range []string{"shop.close", "jobs.limited"} {
		page := s.shows("/topics/"+name+"?tab=forecast", "At 1 job per second", "1 job per second, from the rate limit",
			"highest rate of the last 7 days", "More may be possible")
		if !late.MatchString(page) {
			t.Errorf("the page of %s shows\n%s", name, page)
		}
	}
	s.shows("/topics/jobs.free?tab=forecast", "if 0.30 jobs per second is", "0.30 jobs per second, measured")
	s.shows("/", `hx-get="/overview/late"`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/overview/late", nil)
	must(t, err)
	r.Header.Set("HX-Request", "true")
	status, body := s.send(r)
	if status != http.StatusOK || !strings.Contains(body, "shop.close will be ") || !late.MatchString(body) ||
		!strings.Contains(body, "jobs.limited will be ") || strings.Contains(body, "jobs.free") {
		t.Errorf("the overview's fragment answered %d: %s", status, body)
	}
}
