package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/test/wait"
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
	s.admin.jobs.Runner().PollEvery = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.admin.jobs.Runner().Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

// finished waits for the end of a task.
func (s *site) finished(id uint64) (v *bulk.Task) {
	s.Helper()
	wait.For(s, "the task to end", func() (ended bool) {
		var err error
		if v, err = s.admin.jobs.Runner().Task(s.Context(), id); err != nil {
			s.Fatal(err)
		}
		return !v.Open()
	})
	return v
}

func TestRedriveInStages(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("shop.close", 250)
	s := deadSite(t, q)
	if status, body := s.post("/dead/redrive", "topic", "", "staged", "on", "rate", "0", "stop_above",
		"20"); status != http.StatusOK {
		t.Fatalf("got %d\n%s", status, body)
	}
	v := s.finished(1)
	if v.State != bulk.Done || v.Done != 250 || v.Total != 250 || v.Errors != 0 || v.Actor != "user/ops" {
		t.Errorf("the task is %+v", v)
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
	t.Parallel()
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
	if v.State != bulk.Stopped || q.redriven != 10 || v.Why() == nil {
		t.Errorf("%d were re-driven, and the task is %+v", q.redriven, v)
	}
	s.shows("/tasks/1", "5 of 10 failed again, more than 20.0 %.")
	s.post("/language", "choice", "zh-Hans")
	s.shows("/tasks/1", "10 个中有 5 个再次失败")
}

func TestRedriveWithFilter(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 20)
	q.jobs["a"][7].History[0].Error = "TLS handshake timeout"
	s := deadSite(t, q)
	s.post("/dead/redrive", "topic", "a", "text", "tls")
	if v := s.finished(1); v.Done != 1 || q.redriven != 1 {
		t.Errorf("%d were re-driven, and the task is %+v", q.redriven, v)
	}
	if status, body := s.post("/dead/redrive", "topic", "nowhere"); status != http.StatusBadRequest {
		t.Errorf("a topic that does not exist got %d\n%s", status, body)
	}
}

func TestTaskIsCancelled(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 100)
	s := deadSite(t, q)
	s.post("/dead/redrive", "rate", "1")
	s.post("/tasks/1/cancel")
	if v := s.finished(1); v.State != bulk.Cancelled {
		t.Errorf("the task is %+v", v)
	}
}

func TestDeadNeedsOperator(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("look")
	for _, path := range []string{"/dead/redrive", "/dead/delete", "/dead/selected", "/tasks/1/cancel"} {
		if status, _ := s.post(path); status != http.StatusForbidden {
			t.Errorf("a viewer got %d from %s", status, path)
		}
	}
}
