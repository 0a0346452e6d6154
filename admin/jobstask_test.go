package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// jobsSite is an admin whose tasks run, over a real queue with delayed jobs a-N and b-N of the topic t.
func jobsSite(t *testing.T, each int) (*site, *queue.Queue, time.Time) {
	t.Helper()
	q := realQueue(t)
	s := open(t, func(o *Options) { o.Queue = q }).as("ops")
	topic := registry.NewTopic("t")
	topic.CallbackURL = "http://127.0.0.1:1/"
	if _, err := s.registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(3 * time.Hour).UTC().Truncate(time.Minute)
	var batch []queue.Push
	for n := range each {
		for _, kind := range []string{"a", "b"} {
			batch = append(batch, queue.Push{Topic: "t", ID: fmt.Sprintf("%s-%d", kind, n), Body: []byte("1"), DueAt: due})
		}
	}
	for _, r := range q.PushBatch(t.Context(), batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	s.admin.runner().each = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.admin.runner().run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s, q, due
}

// all posts the form, checks the number that is named, and confirms.
func (s *site) all(count string, pairs ...string) *taskView {
	s.Helper()
	status, body := s.post("/topics/t/jobs/all", pairs...)
	if status != http.StatusOK || !strings.Contains(body, count+" jobs match") {
		s.Fatalf("asked about %v: %d, want %s jobs\n%s", pairs, status, count, body)
	}
	tasks, err := s.admin.runner().store.ListTasks(s.Context(), 10)
	if err != nil {
		s.Fatal(err)
	}
	if status, body = s.post("/topics/t/jobs/all", append(pairs, "sure", "1")...); status != http.StatusOK {
		s.Fatalf("confirmed %v: %d\n%s", pairs, status, body)
	}
	now, err := s.admin.runner().store.ListTasks(s.Context(), 10)
	if err != nil || len(now) != len(tasks)+1 {
		s.Fatalf("%d tasks, before %d: %v", len(now), len(tasks), err)
	}
	return s.finished(now[0].ID)
}

func TestEverythingThatMatchesIsShiftedAndDeleted(t *testing.T) {
	const each = 700
	s, q, due := jobsSite(t, each)
	if v := s.all("700", "state", "delayed", "text", "A-", "do", "shift", "shift", "-90m"); v.State != TaskDone || v.Done != each || v.Errors != 0 {
		t.Fatalf("the task is %+v", v.Task)
	}
	for id, want := range map[string]time.Time{"a-0": due.Add(-90 * time.Minute), "a-699": due.Add(-90 * time.Minute), "b-0": due} {
		if job, err := q.Get(t.Context(), "t", id); err != nil || !job.DueAt.Equal(want) {
			t.Errorf("%s: %+v, %v, want due at %s", id, job, err, want)
		}
	}
	if v := s.all("700", "state", "delayed", "until", due.Format(minuteForm), "do", "delete"); v.State != TaskDone || v.Done != each {
		t.Fatalf("the task is %+v", v.Task)
	}
	stats, err := q.Stats(t.Context(), []string{"t"})
	if err != nil || stats["t"].Delayed != each {
		t.Errorf("%+v are left, %v; want the %d that did not match", stats["t"], err, each)
	}
	if v := s.all("700", "state", "delayed", "do", "run"); v.State != TaskDone || v.Done != each {
		t.Fatalf("the task is %+v", v.Task)
	}
	if stats, err = q.Stats(t.Context(), []string{"t"}); err != nil || stats["t"].Ready != each {
		t.Errorf("%+v, %v; want all ready", stats["t"], err)
	}
}

func TestAShiftThatWasInterruptedIsNotRepeated(t *testing.T) {
	s, q, due := jobsSite(t, 3)
	run := &taskRun{runner: s.admin.runner()}
	run.Done, run.CreatedAt = 2, time.Now().Add(time.Minute)
	run.Params = []byte(`{"filter":{"topic":"t","state":"delayed"},"do":"shift","shift":3600000000000}`)
	if err := s.admin.jobsTask(t.Context(), run); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("it went on: %v", err)
	}
	if job, err := q.Get(t.Context(), "t", "a-0"); err != nil || !job.DueAt.Equal(due) {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestActionsOnAllThatCannotBe(t *testing.T) {
	s, q, due := jobsSite(t, 2)
	for _, pairs := range [][]string{
		{"state", "running", "do", "run"}, {"state", "delayed", "do", "burn"}, {"state", "delayed", "do", "shift", "shift", "soon"},
		{"state", "delayed", "do", "due"}, {"state", "dead", "do", "shift", "shift", "1h"}, {"state", "delayed", "do", "run", "since", "then"},
	} {
		if _, body := s.post("/topics/t/jobs/all", append(pairs, "sure", "1")...); strings.Contains(body, "wk-task") {
			t.Errorf("%v started a task", pairs)
		}
	}
	if tasks, err := s.admin.runner().store.ListTasks(t.Context(), 10); err != nil || len(tasks) != 0 {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
	s.as("look")
	if status, _ := s.post("/topics/t/jobs/all", "state", "delayed", "do", "delete", "sure", "1"); status != http.StatusForbidden {
		t.Errorf("a viewer got %d", status)
	}
	s.as("ops")
	s.post("/topics/t/jobs", "job", "a-0", "job", "b-1", "do", "shift", "shift", "1h")
	for id, want := range map[string]time.Time{"a-0": due.Add(time.Hour), "b-1": due.Add(time.Hour), "a-1": due} {
		if job, err := q.Get(t.Context(), "t", id); err != nil || !job.DueAt.Equal(want) {
			t.Errorf("%s: %+v, %v", id, job, err)
		}
	}
}
