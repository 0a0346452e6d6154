package admin

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// working carries tasks out until the function is called, which waits.
func (s *site) working(ctx context.Context) (stop func()) {
	s.admin.runner().each = time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.admin.runner().run(ctx) }()
	return func() {
		cancel()
		<-ended
	}
}

// stocked is a shop whose topic has n delayed jobs, order-0 and on, due a second after each other from an hour ahead.
func stocked(t *testing.T, n int, wrap func(*queue.Queue) Queue) (*site, *queue.Queue, time.Time) {
	t.Helper()
	q := realQueue(t)
	dir := t.TempDir()
	s := open(t, func(o *Options) {
		o.Queue = q
		if wrap != nil {
			o.Queue = wrap(q)
		}
		o.Pages.WorkDir = dir
	}).as("ops")
	s.admin.patience = time.Minute // whatever the machine does beside
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/hook"
	if _, err := s.registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	pushes := make([]queue.Push, n)
	for i := range pushes {
		pushes[i] = queue.Push{Topic: "shop.close", ID: fmt.Sprint("order-", i), Body: []byte(`{}`), DueAt: begin.Add(time.Duration(i) * time.Second)}
	}
	for i, r := range q.PushBatch(t.Context(), pushes) {
		if r.Err != nil {
			t.Fatalf("push %d: %v", i, r.Err)
		}
	}
	return s, q, begin
}

func (s *site) result(id uint64) bulkResult {
	s.Helper()
	v := s.finished(id)
	if v.State != TaskDone || v.Bulk == nil || v.Done != v.Total {
		s.Fatalf("the task is %+v", v.Task)
	}
	if left, _ := os.ReadDir(s.admin.opts.Pages.WorkDir); len(left) > 0 {
		s.Errorf("the task left %s", left[0].Name())
	}
	return v.Bulk.Result
}

func TestAllThatMatchAreDeleted(t *testing.T) {
	s, q, _ := stocked(t, 3000, nil)
	defer s.working(t.Context())()
	s.shows("/topics/shop.close?tab=jobs&state=delayed", "Select all 3,000 that match")
	s.shows("/topics/shop.close?tab=jobs&state=delayed&id=%5Eorder-2", "1,111 jobs match", "Delete 1,111 jobs?", "order-2")
	if n := strings.Count(s.shows("/topics/shop.close?tab=jobs&state=delayed&id=order-2"), `name="job"`); n < jobsEach || n >= 2*jobsEach {
		t.Errorf("%d jobs on a page", n)
	}
	if _, body := s.post("/topics/shop.close/matching", "state", "delayed", "id", "^order-2", "do", "delete"); !strings.Contains(body, "Delete jobs #1") {
		t.Errorf("after the start: %s", body)
	}
	if r := s.result(1); r != (bulkResult{Done: 1111}) {
		t.Errorf("the result is %+v", r)
	}
	s.shows("/tasks/1", "1,111 of 1,111", "id begins with")
	if n, err := q.Stats(t.Context(), []string{"shop.close"}); err != nil || n["shop.close"].Delayed != 3000-1111 {
		t.Errorf("left are %+v, %v", n, err)
	}
}

func TestRunAllNow(t *testing.T) {
	s, q, _ := stocked(t, 700, nil)
	defer s.working(t.Context())()
	s.post("/topics/shop.close/matching", "state", "delayed", "do", "run")
	if r := s.result(1); r != (bulkResult{Done: 700}) {
		t.Errorf("the result is %+v", r)
	}
	if n, _ := q.Stats(t.Context(), []string{"shop.close"}); n["shop.close"].Ready != 700 {
		t.Errorf("%+v", n)
	}
}

// stopping ends a process in the middle of its work, after some changes.
type stopping struct {
	*queue.Queue
	changes atomic.Int64
	at      int64
	stop    context.CancelFunc
}

func (q *stopping) Change(ctx context.Context, topic, id string, c queue.Change) (*queue.Job, error) {
	j, err := q.Queue.Change(ctx, topic, id, c)
	if q.changes.Add(1) == q.at {
		q.stop()
	}
	return j, err
}

func TestAShiftHappensOnceThoughTheAdminRestarts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q := &stopping{at: 1010, stop: cancel}
	s, real, begin := stocked(t, 2500, func(r *queue.Queue) Queue {
		q.Queue = r
		return q
	})
	first := s.working(ctx)
	s.post("/topics/shop.close/matching", "state", "delayed", "do", "due", "shift", "+30m")
	<-ctx.Done()
	first()
	defer s.working(t.Context())()
	if r := s.result(1); r != (bulkResult{Done: 2500}) {
		t.Errorf("the result is %+v", r)
	}
	for i := 0; i < 2500; i += 7 {
		j, err := real.Get(t.Context(), "shop.close", fmt.Sprint("order-", i))
		if want := begin.Add(30*time.Minute + time.Duration(i)*time.Second); err != nil || !j.NextAt.Equal(want) {
			t.Fatalf("order-%d is called at %s, want %s (%v)", i, j.NextAt, want, err)
		}
	}
}

func TestJobsThatMoveAreNeitherForgottenNorTouched(t *testing.T) {
	s, q, begin := stocked(t, 300, nil)
	list := bulker{queue: q, params: bulkParams{Filter: jobFilter{Topic: "shop.close", State: queue.Delayed}, Do: "due", Shift: -10 * time.Minute}}
	list.run = &taskRun{runner: s.admin.runner(), Task: Task{CreatedAt: time.Now()}}
	list.file = s.TempDir() + "/list"
	if err := list.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Meanwhile one becomes ready, one is gone, one is another of the same name, and one is moved by somebody else.
	_, err := q.RunNow(t.Context(), "shop.close", "order-1")
	must(t, err)
	must(t, q.Delete(t.Context(), "shop.close", "order-2"))
	must(t, q.Delete(t.Context(), "shop.close", "order-3"))
	again := q.Push(t.Context(), queue.Push{Topic: "shop.close", ID: "order-3", Body: []byte(`{}`), Delay: 3 * time.Hour})
	must(t, again.Err)
	moved := begin.Add(5 * time.Hour)
	_, err = q.Change(t.Context(), "shop.close", "order-4", queue.Change{DueAt: &moved})
	must(t, err)
	must(t, list.work(t.Context()))
	if want := (bulkResult{Done: 297, Gone: 2, Moved: 1}); list.params.Result != want {
		t.Errorf("the result is %+v, want %+v", list.params.Result, want)
	}
	for id, want := range map[string]time.Time{"order-0": begin.Add(-10 * time.Minute), "order-3": again.Job.DueAt, "order-4": moved.Add(-10 * time.Minute)} {
		if j, err := q.Get(t.Context(), "shop.close", id); err != nil || !j.DueAt.Equal(want) {
			t.Errorf("%s is due at %v, want %s (%v)", id, j.DueAt, want, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckedJobsChangeTheirDueTime(t *testing.T) {
	s, q, begin := stocked(t, 5, nil)
	_, body := s.post("/topics/shop.close/jobs", "do", "due", "shift", "-10m", "job", "order-1", "job", "order-2", "job", "nobody")
	if !strings.Contains(body, "Done for 2 of 3 jobs") {
		t.Errorf("the page says %s", body)
	}
	if j, _ := q.Get(t.Context(), "shop.close", "order-1"); !j.DueAt.Equal(begin.Add(time.Second - 10*time.Minute)) {
		t.Errorf("order-1 is due at %s", j.DueAt)
	}
	s.post("/topics/shop.close/jobs", "do", "due", "due_at", "2031-01-02T03:04", "job", "order-3")
	if j, _ := q.Get(t.Context(), "shop.close", "order-3"); j.DueAt.Year() != 2031 {
		t.Errorf("order-3 is due at %s", j.DueAt)
	}
	for _, shift := range []string{"", "soon", "0s"} {
		if _, body := s.post("/topics/shop.close/jobs", "do", "due", "shift", shift, "job", "order-1", "back", "/topics/shop.close"); !strings.Contains(body, "is not a shift") {
			t.Errorf("%q is taken", shift)
		}
	}
}

func TestJobFilter(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	j := &queue.Job{ID: "order-12", State: queue.Delayed, DueAt: at, NextAt: at.Add(time.Hour), History: []queue.Attempt{{Error: "Connection refused"}}}
	for name, c := range map[string]struct {
		filter jobFilter
		want   bool
	}{
		"all":          {jobFilter{}, true},
		"contains":     {jobFilter{ID: "der-1"}, true},
		"begins":       {jobFilter{ID: "^Order"}, true},
		"does not":     {jobFilter{ID: "^der"}, false},
		"its retry":    {jobFilter{Since: at.Add(time.Hour)}, true},
		"before it":    {jobFilter{Until: at.Add(time.Hour)}, false},
		"error":        {jobFilter{Error: "connection"}, true},
		"other errors": {jobFilter{Error: "timeout"}, false},
	} {
		c.filter.State = queue.Delayed
		if got := c.filter.match(j); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestActionsOnAllThatCannotBe(t *testing.T) {
	s, _, _ := stocked(t, 2, nil)
	for _, pairs := range [][]string{
		{"state", "running", "do", "run"}, {"state", "delayed", "do", "burn"}, {"state", "delayed", "do", "due", "shift", "soon"},
		{"state", "delayed", "do", "due"}, {"state", "dead", "do", "due", "shift", "1h"}, {"state", "delayed", "do", "run", "since", "then"},
		{"do", "delete"}, {"state", "delayed", "do", "due", "due_at", "2099-01-01T00:00"},
	} {
		if status, _ := s.post("/topics/shop.close/matching", append(pairs, "back", "/topics/shop.close")...); status != http.StatusOK {
			t.Errorf("%v: %d", pairs, status)
		}
	}
	if tasks, err := s.admin.runner().store.ListTasks(t.Context(), 10); err != nil || len(tasks) != 0 {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
}

func TestViewersDoNothingInBulk(t *testing.T) {
	s, _, _ := stocked(t, 5, nil)
	s.as("look")
	if status, _ := s.post("/topics/shop.close/matching", "state", "delayed", "do", "delete"); status != http.StatusForbidden {
		t.Errorf("a viewer got %d", status)
	}
	if body := s.shows("/topics/shop.close?tab=jobs", "5 delayed jobs"); strings.Contains(body, "all-matching") {
		t.Error("a viewer is offered actions on all that match")
	}
}
