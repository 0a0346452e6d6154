package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/admintest"
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
