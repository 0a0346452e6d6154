package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

func TestDeadNeedsOperator(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	for _, path := range []string{"/dead/redrive", "/dead/delete", "/dead/selected", "/tasks/1/cancel"} {
		if status, _ := s.Post(path); status != http.StatusForbidden {
			t.Errorf("a viewer got %d from %s", status, path)
		}
	}
}

// TestTheFormSaysWhatItWillDo: it shows how many jobs of which topics the filter matches, in the confirmation, too, and
// updates that while the filter is typed.
func TestTheFormSaysWhatItWillDo(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 20)
	q.Dead["a"][7].History[0].Error = "TLS handshake timeout"
	q.Dead["b"] = admintest.NewDeadQueue("b", 3).Dead["b"]
	q.ByTopic["b"] = store.Stats{Dead: 3}
	s := admintest.OpenDead(t, q)
	s.Shows("/dead", "23 jobs of 2 topics", "Re-drive 23 jobs of 2 topics? a (20), b (3)")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/dead?topic=a&error=tls", nil)
	admintest.Must(t, err)
	r.Header.Set("HX-Request", "true")
	_, body := s.Send(r)
	for _, want := range []string{"1 job of one topic", `name="topic" value="a"`, `name="error" value="tls"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the fragment lacks %q:\n%s", want, body)
		}
	}
}

// TestNoActionIsHiddenBecauseOfACount that is cached or unknown: jobs that the page lists can be acted on.
func TestNoActionIsHiddenBecauseOfACount(t *testing.T) {
	t.Parallel()
	for name, counts := range map[string]func(*admintest.DeadQueue){
		"none when they were counted": func(q *admintest.DeadQueue) { q.ByTopic = nil },
		"no shard was counted":        func(q *admintest.DeadQueue) { q.CountsErr = errors.New("timeout") },
	} {
		q := admintest.NewDeadQueue("a", 20)
		counts(q)
		s := admintest.OpenDead(t, q)
		if body := s.Shows("/dead", "20 jobs of one topic", "Start re-drive"); strings.Contains(body, " disabled") {
			t.Errorf("%s: an action is disabled", name)
		}
		s.Shows("/topics/a?tab=jobs&state=dead", `id="all-matching"`)
	}
}

// TestManyTopicsWithDeadJobsAreCountedInTime: the page is answered before the matches in 2,000 topics are all counted.
func TestManyTopicsWithDeadJobsAreCountedInTime(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 1)
	topics := make([]registry.Topic, 2000)
	for i := range topics {
		name := fmt.Sprintf("many.%d", i)
		topics[i] = registry.NewTopic(name)
		topics[i].CallbackURL = "http://127.0.0.1:1/"
		q.Dead[name], q.ByTopic[name] = nil, store.Stats{Dead: 1}
	}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Patience = q, 1 }).As("ops")
	_, err := s.Registry.PutTopics(t.Context(), "test", topics)
	admintest.Must(t, err)
	go func() { _ = s.Registry.Run(t.Context()) }() // on a busy machine they may not be read in time after the change
	wait.For(t, "the topics to be known", func() bool { return s.Registry.Snapshot().Topics.Len() == len(topics) })
	s.Shows("/dead?error=tls", "Counting")
	if q.Lists > 100 {
		t.Errorf("the page listed dead jobs %d times", q.Lists)
	}
}

// TestAnInvalidFilterDeletesNothing: without its time it would match more jobs than intended.
func TestAnInvalidFilterDeletesNothing(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 3)
	s := admintest.OpenDead(t, q)
	for _, path := range []string{"/dead/delete", "/dead/redrive"} {
		if _, body := s.Post(path, "topic", "a", "since", "yesterday"); !strings.Contains(body, "yesterday") {
			t.Errorf("%s does not name the invalid time:\n%s", path, body)
		}
	}
	if status, _ := s.Get("/tasks/1"); status != http.StatusNotFound {
		t.Error("a task was started")
	}
}

// TestARedrivenJobIsNotDeletedAsDead: another user re-drove a dead letter that this page still shows. Deleting or
// re-driving it leaves the job alone, and says so; and a job that died after the list of delayed jobs was shown stays a
// dead letter.
func TestARedrivenJobIsNotDeletedAsDead(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("ops")
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "shop.close", ID: "again", Body: []byte(`{}`),
		Delay: time.Hour}).Err)
	for _, do := range []string{"delete", "retry"} {
		_, body := s.Post("/dead/selected", "job", "shop.close/again", "do", do)
		if !strings.Contains(body, "Done for 0 of 1 jobs. Skipped: 0 running, 1 gone or changed since") {
			t.Errorf("%s of a re-driven job: %s", do, body)
		}
		_, body = s.Post("/topics/shop.close/jobs", "job", "again", "do", do, "state", "dead", "back",
			"/topics/shop.close?tab=jobs&state=delayed")
		if !strings.Contains(body, "Done for 0 of 1 jobs.") {
			t.Errorf("%s of a re-driven job, on its topic's page: %s", do, body)
		}
	}
	if j, err := q.Get(t.Context(), "shop.close", "again"); err != nil || j.State != store.Delayed {
		t.Errorf("the job is %+v: %v", j, err)
	}
	if _, body := s.Post("/topics/shop.close/jobs", "job", "again", "do", "delete", "state", "delayed", "back",
		"/topics/shop.close?tab=jobs"); !strings.Contains(body, "Done for 1 of 1 jobs.") {
		t.Errorf("an unchanged job is not deleted: %s", body)
	}
}

func TestNothingSelectedIsNotASuccess(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	_, body := s.As("ops").Post("/dead/selected", "do", "retry")
	if !strings.Contains(body, "No jobs selected") || strings.Contains(body, "are ready again") {
		t.Errorf("it says\n%s", body)
	}
}

// TestTheDeadSayWhyAndWhen, on a topic's page, too; and failed attempts are red, whatever the endpoint answered.
func TestTheDeadSayWhyAndWhen(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 3)
	q.Dead["a"][0].DeadAt = time.Now().Add(-time.Hour)
	q.Dead["a"][0].History[0] = store.Attempt{N: 3, Status: 200, Error: "retry_if is true for the response"}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Activity = q, failedOnce{} }).As("ops")
	s.AddTopic("a")
	s.Shows("/dead?topic=a", "Last error", "Died", "connection refused", "1h ago")
	s.Shows("/topics/a?tab=jobs&state=dead", "Last error", "Died", "connection refused", "1h ago")
	for _, path := range []string{"/topics/a/jobs/job-0", "/topics/a?tab=attempts", "/dead?topic=a"} {
		if body := s.Shows(path, "retry_if is true", `-lt">200`); strings.Contains(body, `bg-green-lt">200`) {
			t.Errorf("%s shows the failed attempt in green", path)
		}
	}
	s.Post("/language", "choice", "zh-Hans")
	s.Shows("/topics/a?tab=attempts", `bg-secondary-lt">超时`) // by the reason, not by the error's text
}

// failedOnce is the activity of a topic whose endpoint answered 200 but whose attempt failed.
type failedOnce struct{ admintest.NoActivity }

func (failedOnce) Attempts(context.Context, string, int) ([]activity.Attempt, error) {
	return []activity.Attempt{{ID: "job-0", N: 3, Status: 200, Outcome: "retry", Reason: "retry_if",
		Error: "retry_if is true for the response"}, {ID: "job-1", N: 1, Outcome: "retry", Reason: "timeout"}}, nil
}
