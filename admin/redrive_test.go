package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/wait"
)

// deadSite is an admin with a task runner and a queue of dead jobs.
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
	s.shows("/tasks/1", "5 of 10 jobs failed again, more than 20.0 %", `bg-orange" data-width="4"`)
	s.shows("/tasks", "Re-drive dead jobs #1", "10 of 250", `bg-orange" data-width="4"`)
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
	s.shows("/tasks/1", "data-ended")
	s.post("/dead/redrive", "rate", "0")
	s.finished(2)
	if _, body := s.post("/tasks/2/cancel"); !strings.Contains(body, "The task has already ended.") {
		t.Errorf("a task that has ended is canceled\n%s", body)
	}
	if v := s.finished(2); v.CancelRequested {
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

// TestTheFormSaysWhatItWillDo: it shows how many jobs of which topics the filter matches, in the confirmation, too, and
// updates that while the filter is typed.
func TestTheFormSaysWhatItWillDo(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 20)
	q.jobs["a"][7].History[0].Error = "TLS handshake timeout"
	q.jobs["b"] = newDeadQueue("b", 3).jobs["b"]
	q.stats["b"] = queue.Stats{Dead: 3}
	s := deadSite(t, q)
	s.admin.jobs.SetPatience(time.Minute)
	s.shows("/dead", "23 jobs of 2 topics", "Re-drive 23 jobs of 2 topics? a (20), b (3)")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/dead/count?topic=a&text=tls", nil)
	must(t, err)
	r.Header.Set("HX-Request", "true")
	_, body := s.send(r)
	for _, want := range []string{"1 job of one topic", `name="topic" value="a"`, `name="text" value="tls"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the fragment lacks %q:\n%s", want, body)
		}
	}
}

func TestASecondOverlappingRedriveIsRefused(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 100)
	q.jobs["b"] = newDeadQueue("b", 3).jobs["b"]
	s := deadSite(t, q)
	s.post("/dead/redrive", "topic", "a", "rate", "0.1")
	for _, again := range [][]string{{"topic", "a", "text", "x"}, {"topic", ""}} {
		if _, body := s.post("/dead/redrive", again...); !strings.Contains(body, "Task #1 is still working") {
			t.Errorf("%v is not refused:\n%s", again, body)
		}
	}
	s.post("/dead/redrive", "topic", "b", "rate", "0")
	if v := s.finished(2); v.Done != 3 {
		t.Errorf("a re-drive of another topic is %+v", v)
	}
	s.shows("/dead", `href="/tasks/1"`)
	s.post("/tasks/1/cancel")
	s.finished(1)
	s.post("/dead/delete", "topic", "a")
	if v := s.finished(3); v.State != bulk.Done {
		t.Errorf("after the first was cancelled: %+v", v)
	}
}

// TestUnknownIsNotNone: while no shard answers, no number is shown as 0, and nothing is shown as healthy.
func TestUnknownIsNotNone(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Queue = &awayQueue{} }).as("look")
	s.topic("shop.close")
	must(t, s.registry.PutShard(t.Context(), "test", registry.Shard{Name: "s1", URL: "redis://127.0.0.1:1/0",
		State: registry.ShardActive}))
	for path, absent := range map[string]string{"/dead": "No dead letters", "/topics": `<td class="wk-num">0</td>`,
		"/topics/shop.close": `<div class="h2 mb-0">0</div>`} {
		if body := s.shows(path, "No shard responds (s1)", "–"); strings.Contains(body, absent) {
			t.Errorf("%s shows %s", path, absent)
		}
	}
	if strip := s.admin.overview.Strip(t.Context()); strip.Known || len(strip.Missing) != 1 {
		t.Errorf("the strip is %+v", strip)
	}
}

// awayQueue never answers.
type awayQueue struct{ fakeQueue }

func (*awayQueue) Stats(_ context.Context, topics []string) (map[string]queue.Stats, error) {
	return map[string]queue.Stats{}, &queue.PartialError{Shards: []string{"s1"}, Err: context.DeadlineExceeded}
}

func (*awayQueue) Totals(context.Context, []string) (map[string]queue.TopicTotals, error) {
	return map[string]queue.TopicTotals{}, &queue.PartialError{Shards: []string{"s1"}, Err: context.DeadlineExceeded}
}
