package jobs_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// finished waits for the end of a task.
func finished(s *admintest.Site, id uint64) (v *bulk.Task) {
	s.Helper()
	wait.For(s, "the task to end", func() (ended bool) {
		var err error
		if v, err = s.Admin.Tasks.GetTask(s.Context(), id); err != nil {
			s.Fatal(err)
		}
		return !v.Open()
	})
	return v
}

func TestRedriveInStages(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("shop.close", 250)
	s := admintest.OpenDead(t, q)
	if status, body := s.Post("/dead/redrive", "topic", "", "staged", "on", "rate", "0", "stop_above",
		"20"); status != http.StatusOK {
		t.Fatalf("got %d\n%s", status, body)
	}
	v := finished(s, 1)
	if v.State != bulk.Done || v.Done != 250 || v.Total != 250 || v.Errors != 0 || v.Actor != "user/ops" {
		t.Errorf("the task is %+v", v)
	}
	var sizes []int64
	for _, stage := range v.Params.Stages {
		sizes = append(sizes, stage.Redriven)
	}
	if len(sizes) != 3 || sizes[0] != 10 || sizes[1] != 15 || sizes[2] != 225 {
		t.Errorf("the stages re-drove %v, want [10 15 225]", sizes)
	}
}

func TestRedriveStopsByItself(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("shop.close", 250)
	q.Fate = func(_, id string) *store.Job {
		if n, _ := strconv.Atoi(strings.TrimPrefix(id, "job-")); n%2 == 0 {
			return &store.Job{ID: id, State: store.Delayed, Attempts: 1}
		}
		return nil
	}
	s := admintest.OpenDead(t, q)
	s.Post("/dead/redrive", "staged", "on", "rate", "0", "stop_above", "20")
	v := finished(s, 1)
	if v.State != bulk.Stopped || q.Redriven != 10 || v.Why() == nil {
		t.Errorf("%d were re-driven, and the task is %+v", q.Redriven, v)
	}
	s.Shows("/tasks/1", "5 of 10 jobs failed again, more than 20.0%", `bg-orange" data-width="4"`)
	s.Shows("/tasks", "Re-drive dead jobs #1", "10 of 250", `bg-orange" data-width="4"`)
	s.Post("/language", "choice", "zh-Hans")
	s.Shows("/tasks/1", "10 个中有 5 个再次失败")
}

// TestAStoppedRedriveIsContinued with the jobs that it has not re-driven, and links those that failed again.
func TestAStoppedRedriveIsContinued(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("shop.close", 250)
	q.Fate = func(_, id string) *store.Job { return &store.Job{ID: id, State: store.Delayed, Attempts: 1} }
	s := admintest.OpenDead(t, q)
	s.Post("/dead/redrive", "topic", "shop.close", "staged", "on", "rate", "7", "stop_above", "20")
	stopped := finished(s, 1)
	s.Shows("/tasks/1", `action="/tasks/1/continue"`, `href="/dead?topic=shop.close">10 failed again`)
	if body := s.As("look").Shows("/tasks/1"); strings.Contains(body, "/continue") {
		t.Error("a viewer may continue it")
	}
	s.As("ops")
	s.Post("/tasks/1/continue")
	next := finished(s, 2)
	if p := next.Params; p.Rate != 7 || !p.Staged || p.Filter.Topic != "shop.close" ||
		!p.Filter.Until.Equal(stopped.CreatedAt) {
		t.Errorf("continued by %+v of %+v", next, stopped)
	}
}

func TestRedriveWithFilter(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 20)
	q.Dead["a"][7].History[0].Error = "TLS handshake timeout"
	s := admintest.OpenDead(t, q)
	s.Post("/dead/redrive", "topic", "a", "error", "tls")
	if v := finished(s, 1); v.Done != 1 || q.Redriven != 1 {
		t.Errorf("%d were re-driven, and the task is %+v", q.Redriven, v)
	}
	if status, body := s.Post("/dead/redrive", "topic", "nowhere"); status != http.StatusBadRequest {
		t.Errorf("a topic that does not exist got %d\n%s", status, body)
	}
}

func TestASecondOverlappingRedriveIsRefused(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 100)
	q.Dead["b"] = admintest.NewDeadQueue("b", 3).Dead["b"]
	s := admintest.OpenDead(t, q)
	s.Post("/dead/redrive", "topic", "a", "rate", "0.1")
	for _, again := range [][]string{{"topic", "a", "error", "x"}, {"topic", ""}} {
		if _, body := s.Post("/dead/redrive", again...); !strings.Contains(body, "Task #1 is still working") {
			t.Errorf("%v is not refused:\n%s", again, body)
		}
	}
	s.Post("/dead/redrive", "topic", "b", "rate", "0")
	if v := finished(s, 2); v.Done != 3 {
		t.Errorf("a re-drive of another topic is %+v", v)
	}
	s.Shows("/dead", `href="/tasks/1"`)
	s.Post("/tasks/1/cancel")
	finished(s, 1)
	s.Post("/dead/delete", "topic", "a")
	if v := finished(s, 3); v.State != bulk.Done {
		t.Errorf("after the first was cancelled: %+v", v)
	}
}

func TestTaskIsCancelled(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 100)
	s := admintest.OpenDead(t, q)
	s.Post("/dead/redrive", "rate", "1")
	s.Post("/tasks/1/cancel")
	if v := finished(s, 1); v.State != bulk.Cancelled {
		t.Errorf("the task is %+v", v)
	}
	s.Shows("/tasks/1", "data-ended")
	s.Post("/dead/redrive", "rate", "0")
	finished(s, 2)
	if _, body := s.Post("/tasks/2/cancel"); !strings.Contains(body, "The task has already ended.") {
		t.Errorf("a task that has ended is canceled\n%s", body)
	}
	if v := finished(s, 2); v.CancelRequested {
		t.Errorf("the task is %+v", v)
	}
}

// An unknown task is "not found", not an error.
func TestATaskThatDoesNotExistIsNotCanceled(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("ops")
	for _, id := range []string{"0", "9999", "x", "18446744073709551615"} {
		if status, _ := s.Post("/tasks/" + id + "/cancel"); status != http.StatusNotFound {
			t.Errorf("canceling %s is %d", id, status)
		}
	}
}
