package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// deadSite is an admin whose tasks run, over a queue of dead jobs.
func deadSite(t *testing.T, q *deadQueue) *site {
	t.Helper()
	s := open(t, func(o *Options) { o.Queue = q }).as("ops")
	for name := range q.jobs {
		topic := registry.NewTopic(name)
		topic.CallbackURL = "http://127.0.0.1:1/"
		if _, err := s.registry.PutTopic(t.Context(), "test", topic); err != nil {
			t.Fatal(err)
		}
	}
	s.admin.runner().each = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.admin.runner().run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

// finished waits for the end of a task.
func (s *site) finished(id uint64) *taskView {
	s.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		v, err := s.admin.taskView(s.Context(), id)
		if err != nil {
			s.Fatal(err)
		}
		if !v.Open() {
			return v
		}
		_ = pause(s.Context(), time.Millisecond)
	}
	s.Fatal("the task did not end")
	return nil
}

func TestRedriveInStages(t *testing.T) {
	q := newDeadQueue("shop.close", 250)
	s := deadSite(t, q)
	if status, body := s.post("/dead/redrive", "topic", "", "staged", "on", "rate", "0", "stop_above", "20"); status != http.StatusOK {
		t.Fatalf("got %d\n%s", status, body)
	}
	v := s.finished(1)
	if v.State != TaskDone || v.Done != 250 || v.Total != 250 || v.Errors != 0 || v.Actor != "user/ops" {
		t.Errorf("the task is %+v", v.Task)
	}
	var sizes []int64
	for _, stage := range v.About.Stages {
		sizes = append(sizes, stage.Redriven)
	}
	if len(sizes) != 3 || sizes[0] != 10 || sizes[1] != 15 || sizes[2] != 225 {
		t.Errorf("the stages re-drove %v, want [10 15 225]", sizes)
	}
}

func TestRedriveStopsByItself(t *testing.T) {
	q := newDeadQueue("shop.close", 250)
	q.fate = func(_, id string) *queue.Job {
		if n, _ := strconv.Atoi(strings.TrimPrefix(id, "job-")); n%2 == 0 {
			return &queue.Job{ID: id, State: queue.Delayed, Attempts: 1}
		}
		return nil
	}
	s := deadSite(t, q)
	s.post("/dead/redrive", "staged", "on", "rate", "0", "stop_above", "20")
	v := s.finished(1)
	if v.State != TaskStopped || q.redriven != 10 || v.Why() == nil {
		t.Errorf("%d were re-driven, and the task is %+v", q.redriven, v.Task)
	}
	s.shows("/tasks/1", "5 of 10 failed again, more than 20.0 %.")
	s.post("/language", "choice", "zh-Hans")
	s.shows("/tasks/1", "10 个中有 5 个再次失败")
}

func TestWhyATaskStopped(t *testing.T) {
	old := Task{Error: "5 of 10 failed again"}
	if old.Why() != nil {
		t.Error("the words of an earlier version are not taken as they are")
	}
	is := Task{Error: storedError(fmt.Errorf("stage 1: %w", sayError("tasks.why_full", 2_000_000)))}
	if why := is.Why(); why == nil || why.Key != "tasks.why_full" || fmt.Sprint(why.Args...) != "2000000" {
		t.Errorf("%s is read as %+v", is.Error, why)
	}
}

func TestRedriveWithFilter(t *testing.T) {
	q := newDeadQueue("a", 20)
	q.jobs["a"][7].History[0].Error = "TLS handshake timeout"
	s := deadSite(t, q)
	s.post("/dead/redrive", "topic", "a", "text", "tls")
	if v := s.finished(1); v.Done != 1 || q.redriven != 1 {
		t.Errorf("%d were re-driven, and the task is %+v", q.redriven, v.Task)
	}
	if status, body := s.post("/dead/redrive", "topic", "nowhere"); status != http.StatusBadRequest {
		t.Errorf("a topic that does not exist got %d\n%s", status, body)
	}
}

func TestFilter(t *testing.T) {
	died := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	j := queue.Job{ID: "Order-7", DeadReason: "gone", DeadAt: died, History: []queue.Attempt{{Status: 410}}}
	for _, c := range []struct {
		f    deadFilter
		want bool
	}{
		{deadFilter{}, true}, {deadFilter{Text: "http 410"}, true}, {deadFilter{Text: "order-"}, true}, {deadFilter{Text: "refused"}, false},
		{deadFilter{Reason: "gone"}, true}, {deadFilter{Reason: "attempts"}, false}, {deadFilter{Since: died}, true},
		{deadFilter{Since: died.Add(1)}, false}, {deadFilter{Until: died}, false}, {deadFilter{Until: died.Add(1)}, true},
	} {
		if got := c.f.match(&j); got != c.want {
			t.Errorf("%+v matches: %v", c.f, got)
		}
	}
}

func TestTaskIsCancelled(t *testing.T) {
	q := newDeadQueue("a", 100)
	s := deadSite(t, q)
	s.post("/dead/redrive", "rate", "1")
	s.post("/tasks/1/cancel")
	if v := s.finished(1); v.State != TaskCancelled {
		t.Errorf("the task is %+v", v.Task)
	}
}

func TestTaskGoesOnAfterARestart(t *testing.T) {
	q := newDeadQueue("a", 30)
	s := open(t, func(o *Options) { o.Queue = q })
	runner := newTaskRunner(nil, "here", slog.New(slog.DiscardHandler), time.Now)
	runner.each = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	runner.kinds["slow"] = func(ctx context.Context, run *taskRun) error {
		run.total(2)
		run.progress(1, 0)
		if calls++; calls == 1 {
			cancel() // the process ends
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	if _, err := runner.start(t.Context(), "user/x", "slow", nil); err != nil {
		t.Fatal(err)
	}
	_ = runner.run(ctx)
	if task, _ := runner.store.GetTask(t.Context(), 1); task.State != TaskRunning {
		t.Fatalf("the task is %s after its process ended", task.State)
	}
	s.admin.overview.runner = runner
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- runner.run(ctx) }()
	if v := s.finished(1); v.State != TaskDone || calls != 2 {
		t.Errorf("the task is %+v after %d calls", v.Task, calls)
	}
	cancel()
	<-ended
}

func TestDeadNeedsOperator(t *testing.T) {
	s := open(t, nil).as("look")
	for _, path := range []string{"/dead/redrive", "/dead/delete", "/dead/selected", "/tasks/1/cancel"} {
		if status, _ := s.post(path); status != http.StatusForbidden {
			t.Errorf("a viewer got %d from %s", status, path)
		}
	}
}
