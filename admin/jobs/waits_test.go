package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// TestTheJobPageSaysWhyTheJobWaits, with the button that ends it for those who may.
func TestTheJobPageSaysWhyTheJobWaits(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("ops")
	push := func(id string, delay time.Duration) string {
		admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "shop.close", ID: id, Delay: delay}).Err)
		return "/topics/shop.close/jobs/" + id
	}
	later, first, second := push("later", time.Hour), push("first", 0), push("second", 0)
	s.Shows(later, "Why does this job wait?", "It is not due until", `name="do" value="run"`)
	s.Shows(first, "it is the next job of its topic", "/jobs/first/waits")
	s.Shows(second+"/waits", "1 due job of the same topic and priority", "state=ready")

	topic := *s.Registry.Snapshot().Topics.Get("shop.close")
	topic.State = registry.TopicPaused
	_, err := s.Registry.PutTopic(t.Context(), "user/wei", topic)
	admintest.Must(t, err)
	s.Shows(first, "The topic is paused.", "user/wei", "/topics/shop.close/resume")
	if body := s.As("look").Shows(first, "The topic is paused."); strings.Contains(body, "/resume") {
		t.Error("a viewer may resume the topic")
	}
	s.As("ops").Post("/topics/shop.close/resume", "was", "paused", "back", first)
	if state := s.Registry.Snapshot().Topics.Get("shop.close").State; state != registry.TopicActive {
		t.Errorf("after resume it is %s", state)
	}

	admintest.Must(t, q.SetTopics(t.Context(), slices.Values([]store.TopicConf{
		{Name: "shop.close", TTR: time.Hour, MaxAttempts: 3, MaxInFlight: 1}})))
	fill(t, q)
	s.As("root").Shows(second, "max_in_flight is reached: 1 of 1", "edit#f-max_in_flight")
}

// fill makes one job run.
func fill(t *testing.T, q *queue.Queue) {
	t.Helper()
	n := 0
	wait.For(t, "a job to be reserved", func() bool {
		n++
		r, err := q.Shards.All()[0].Buckets()[0].Reserve(t.Context(), store.Reserve{Worker: "w", Token: fmt.Sprint("t", n), Max: 1,
			Pattern: "0102010201"})
		return err == nil && len(r.Jobs) == 1
	})
}

// behind is a queue of dead jobs whose topic's breaker is open until then.
type behind struct {
	*admintest.DeadQueue
	until time.Time
}

func (b behind) TopicLimits(context.Context, []string) (map[string]observe.TopicLimits, error) {
	return map[string]observe.TopicLimits{"a": {Failures: 12, BreakerOpen: b.until}}, nil
}

// TestRunNowSaysWhatAnOpenBreakerMakesOfIt, on the page of a job and beside the buttons for many. A probe that is due
// calls the job at once.
func TestRunNowSaysWhatAnOpenBreakerMakesOfIt(t *testing.T) {
	t.Parallel()
	q := &behind{admintest.NewDeadQueue("a", 1), time.Now().Add(time.Hour)}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = q }).As("ops")
	s.AddTopic("a")
	const text = "The breaker of a is open"
	for _, page := range []string{"/topics/a/jobs/job-0", "/dead", "/topics/a?tab=jobs&state=dead"} {
		s.As("ops").Shows(page, text, "Next probe:")
		s.As("look").Shows(page, "Requires the role operator.")
	}
	s.As("ops")
	q.until = time.Now().Add(-time.Second)
	if body := s.Shows("/topics/a/jobs/job-0"); strings.Contains(body, text) {
		t.Error("a breaker whose probe is due holds up jobs")
	}
}
