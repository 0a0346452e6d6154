package jobs_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// stocked is a shop whose topic has n delayed jobs, order-0 and so on, due a second after each other, the first in an
// hour.
func stocked(t *testing.T, n int, wrap func(*queue.Queue) admin.Queue) (*admintest.Site, *queue.Queue, time.Time) {
	t.Helper()
	q := admintest.RealQueue(t)
	s := admintest.Open(t, func(o *admin.Options) {
		o.Queue = observe.Figures{Queue: q}
		if wrap != nil {
			o.Queue = wrap(q)
		}
	}).As("ops")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/hook"
	if _, err := s.Registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	pushes := make([]store.Push, n)
	for i := range pushes {
		pushes[i] = store.Push{Topic: "shop.close", ID: fmt.Sprint("order-", i), Body: []byte(`{}`),
			DueAt: begin.Add(time.Duration(i) * time.Second)}
	}
	for i, r := range q.PushBatch(t.Context(), pushes) {
		if r.Err != nil {
			t.Fatalf("push %d: %v", i, r.Err)
		}
	}
	return s, q, begin
}

func result(s *admintest.Site, id uint64) bulk.Result {
	s.Helper()
	v := finished(s, id)
	if v.State != bulk.Done || v.Done != v.Total {
		s.Fatalf("the task is %+v", v)
	}
	wait.For(s.T, "the task's list to be removed, once its end is stored", func() bool {
		left, _ := os.ReadDir(s.Admin.Tasks.Dir)
		return len(left) == 0
	})
	return v.Params.Result
}

// jobsOnPage is the minimum number of jobs on a page if more match.
const jobsOnPage = 50

func TestAllThatMatchAreDeleted(t *testing.T) {
	t.Parallel()
	s, q, _ := stocked(t, 3000, nil)
	defer s.Work(t.Context())()
	s.Shows("/topics/shop.close?tab=jobs&state=delayed", "Select all 3,000 matching jobs")
	s.Shows("/topics/shop.close?tab=jobs&state=delayed&id=%5Eorder-2", "1,111 jobs match", "Delete 1,111 jobs?",
		"order-2")
	page := s.Shows("/topics/shop.close?tab=jobs&state=delayed&id=order-2")
	if n := strings.Count(page, `name="job"`); n < jobsOnPage || n >= 2*jobsOnPage {
		t.Errorf("%d jobs on a page", n)
	}
	if _, body := s.Post("/topics/shop.close/matching", "state", "delayed", "id", "^order-2", "do",
		"delete"); !strings.Contains(body, "Delete jobs #1") {
		t.Errorf("after the start: %s", body)
	}
	if r := result(s, 1); r != (bulk.Result{Done: 1111}) {
		t.Errorf("the result is %+v", r)
	}
	s.Shows("/tasks/1", "1,111 of 1,111", "ID starts with")
	if n, err := q.Stats(t.Context(), []string{"shop.close"}); err != nil || n["shop.close"].Delayed != 3000-1111 {
		t.Errorf("%+v are left, %v", n, err)
	}
}

func TestRunAllNow(t *testing.T) {
	t.Parallel()
	s, q, _ := stocked(t, 700, nil)
	defer s.Work(t.Context())()
	s.Post("/topics/shop.close/matching", "state", "delayed", "do", "run")
	if r := result(s, 1); r != (bulk.Result{Done: 700}) {
		t.Errorf("the result is %+v", r)
	}
	if n, _ := q.Stats(t.Context(), []string{"shop.close"}); n["shop.close"].Ready != 700 {
		t.Errorf("%+v", n)
	}
}

// stopping ends a process in the middle of its work, after some changes.
type stopping struct {
	observe.Figures
	changes atomic.Int64
	at      int64
	stop    context.CancelFunc
}

func (q *stopping) Change(ctx context.Context, topic, id string, c store.Change) (*store.Job, error) {
	j, err := q.Queue.Change(ctx, topic, id, c)
	if q.changes.Add(1) == q.at {
		q.stop()
	}
	return j, err
}

func TestAShiftHappensOnceDespiteARestart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q := &stopping{at: 1010, stop: cancel}
	s, real, begin := stocked(t, 2500, func(r *queue.Queue) admin.Queue {
		q.Queue = r
		return q
	})
	first := s.Work(ctx)
	s.Post("/topics/shop.close/matching", "state", "delayed", "do", "due", "shift", "+30m")
	<-ctx.Done()
	first()
	defer s.Work(t.Context())()
	if r := result(s, 1); r != (bulk.Result{Done: 2500}) {
		t.Errorf("the result is %+v", r)
	}
	for i := 0; i < 2500; i += 7 {
		j, err := real.Get(t.Context(), "shop.close", fmt.Sprint("order-", i))
		if want := begin.Add(30*time.Minute + time.Duration(i)*time.Second); err != nil || !j.NextAt.Equal(want) {
			t.Fatalf("order-%d is called at %s, want %s (%v)", i, j.NextAt, want, err)
		}
	}
}

func TestCheckedJobsChangeTheirDueTime(t *testing.T) {
	t.Parallel()
	s, q, begin := stocked(t, 5, nil)
	_, body := s.Post("/topics/shop.close/jobs", "do", "due", "shift", "-10m", "job", "order-1", "job", "order-2",
		"job",
		"nobody")
	if !strings.Contains(body, "Done for 2 of 3 jobs") {
		t.Errorf("the page says %s", body)
	}
	if j, _ := q.Get(t.Context(), "shop.close", "order-1"); !j.DueAt.Equal(begin.Add(time.Second - 10*time.Minute)) {
		t.Errorf("order-1 is due at %s", j.DueAt)
	}
	s.Post("/topics/shop.close/jobs", "do", "due", "due_at", "2031-01-02T03:04", "job", "order-3")
	if j, _ := q.Get(t.Context(), "shop.close", "order-3"); j.DueAt.Year() != 2031 {
		t.Errorf("order-3 is due at %s", j.DueAt)
	}
	for _, shift := range []string{"", "soon", "0s"} {
		if _, body := s.Post("/topics/shop.close/jobs", "do", "due", "shift", shift, "job", "order-1", "back",
			"/topics/shop.close"); !strings.Contains(body, "is not a shift") {
			t.Errorf("%q was accepted", shift)
		}
	}
}

func TestActionsOnAllThatCannotBe(t *testing.T) {
	t.Parallel()
	s, _, _ := stocked(t, 2, nil)
	for _, pairs := range [][]string{
		{"state", "running", "do", "run"}, {"state", "delayed", "do", "burn"},
		{"state", "delayed", "do", "due", "shift", "soon"},
		{"state", "delayed", "do", "due"}, {"state", "dead", "do", "due", "shift", "1h"},
		{"state", "delayed", "do", "run", "since", "then"},
		{"do", "delete"}, {"state", "delayed", "do", "due", "due_at", "2099-01-01T00:00"},
	} {
		if status, _ := s.Post("/topics/shop.close/matching",
			append(pairs, "back", "/topics/shop.close")...); status != http.StatusOK {
			t.Errorf("%v: %d", pairs, status)
		}
	}
	if tasks, err := s.Admin.Tasks.ListTasks(t.Context(), 10); err != nil || len(tasks) != 0 {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
}

func TestViewersDoNothingInBulk(t *testing.T) {
	t.Parallel()
	s, _, _ := stocked(t, 5, nil)
	s.As("look")
	if status, _ := s.Post("/topics/shop.close/matching", "state", "delayed", "do",
		"delete"); status != http.StatusForbidden {
		t.Errorf("a viewer got %d", status)
	}
	if body := s.Shows("/topics/shop.close?tab=jobs", "5 delayed jobs"); strings.Contains(body, "all-matching") {
		t.Error("a viewer is offered actions on all that match")
	}
}
