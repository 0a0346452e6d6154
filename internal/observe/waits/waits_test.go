package waits

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestWaitsNameEachReason: the facts about a job and its topic give all that the job waits for, with its figures.
func TestWaitsNameEachReason(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	later := now.Add(time.Hour)
	topic := func(change ...func(*registry.Topic)) *registry.Topic {
		x := registry.NewTopic("t")
		for _, f := range change {
			f(&x)
		}
		return &x
	}
	pull := topic(func(x *registry.Topic) { x.Delivery = registry.DeliveryPull })
	paused := topic(func(x *registry.Topic) { x.State = registry.TopicPaused })
	ready := &store.Job{Topic: "t", State: store.Ready, Shard: "a"}
	delayed := &store.Job{Topic: "t", State: store.Delayed, DueAt: later, NextAt: later}
	free := func(change ...func(*observe.Standing)) *observe.Standing {
		s := observe.Standing{Window: 32}
		for _, f := range change {
			f(&s)
		}
		return &s
	}
	for name, c := range map[string]struct {
		facts Facts
		want  []Wait
	}{
		"running": {Facts{Job: &store.Job{State: store.Running}, Topic: paused}, nil},
		"dead":    {Facts{Job: &store.Job{State: store.Dead}, Topic: topic()}, nil},
		"done":    {Facts{Job: &store.Job{State: store.Finished}, Topic: topic()}, nil},
		"spooled": {Facts{Job: &store.Job{State: store.Spooled}, Topic: topic()}, []Wait{{Reason: ShardDown}}},
		"down": {Facts{Job: ready, Topic: paused, Down: errors.New("no answer")},
			[]Wait{{Reason: ShardDown, Shard: "a", Error: "no answer"}}},
		"not due": {Facts{Job: delayed, Topic: topic()}, []Wait{{Reason: NotDue, Until: later}}},
		"retry": {
			Facts{Job: &store.Job{State: store.Delayed, DueAt: now, NextAt: later, Attempts: 2,
				History: []store.Attempt{{Error: "first"}, {Error: "status 500"}}}, Topic: topic()},
			[]Wait{{Reason: Retry, Until: later, Attempt: 2, Error: "status 500"}},
		},
		"paused and not due": {
			Facts{Job: delayed, Topic: paused,
				Note: registry.TopicNote{PausedBy: "user/ops", PauseReason: "maintenance", PausedAt: now}},
			[]Wait{{Reason: Paused, By: "user/ops", Why: "maintenance", Since: now}, {Reason: NotDue, Until: later}},
		},
		"offline": {
			Facts{Job: ready, Topic: topic(func(x *registry.Topic) { x.State = registry.TopicOffline }),
				Standing: free()},
			[]Wait{{Reason: Offline}},
		},
		"locked": {Facts{Job: ready, Topic: topic(func(x *registry.Topic) { x.Locked = true }), Standing: free()},
			[]Wait{{Reason: Locked}}},
		"breaker": {
			Facts{Job: ready, Topic: topic(), Standing: free(func(s *observe.Standing) {
				s.BreakerOpen, s.Failures, s.Window, s.Running = later, 12, 4, 4
			})},
			[]Wait{{Reason: Breaker, Until: later, Failures: 12}},
		},
		"in flight, behind": {
			Facts{Job: ready, Topic: topic(func(x *registry.Topic) { x.MaxInFlight = 3 }),
				Standing: free(func(s *observe.Standing) { s.MaxInFlight, s.Running, s.Before = 3, 3, 9 })},
			[]Wait{{Reason: MaxInFlight, Limit: 3, Running: 3}, {Reason: Behind, Jobs: 9}},
		},
		"in flight, a share": {
			Facts{Job: ready, Topic: topic(func(x *registry.Topic) { x.MaxInFlight = 6 }),
				Standing: free(func(s *observe.Standing) { s.MaxInFlight, s.Running = 3, 3 })},
			[]Wait{{Reason: MaxInFlight, Limit: 3, Running: 3, Shard: "a"}},
		},
		"below the limit": {
			Facts{Job: ready, Topic: topic(), Standing: free(func(s *observe.Standing) { s.MaxInFlight, s.Running = 3, 2 })},
			[]Wait{{Reason: Next}},
		},
		"rate": {
			Facts{Job: ready, Topic: topic(func(x *registry.Topic) { x.RateLimit = 0.5 }),
				Standing: free(func(s *observe.Standing) { s.Paced = later })},
			[]Wait{{Reason: RateLimit, Limit: 0.5, Until: later}},
		},
		"window": {Facts{Job: ready, Topic: topic(), Standing: free(func(s *observe.Standing) { s.Running = 32 })},
			[]Wait{{Reason: Window, Limit: 32, Running: 32}}},
		"no worker": {
			Facts{Job: ready, Topic: pull, Standing: free(func(s *observe.Standing) { s.Running = 40 }),
				Workers: &queue.Workers{}},
			[]Wait{{Reason: NoWorker, Running: 40}},
		},
		"a worker waits":  {Facts{Job: ready, Topic: pull, Standing: free(), Workers: &queue.Workers{Waiting: 1}}, []Wait{{Reason: Next}}},
		"unknown workers": {Facts{Job: ready, Topic: pull, Standing: free()}, []Wait{{Reason: Next}}},
		"behind": {Facts{Job: ready, Topic: topic(), Standing: free(func(s *observe.Standing) { s.Before = 7 })},
			[]Wait{{Reason: Behind, Jobs: 7}}},
		"next":     {Facts{Job: ready, Topic: topic(), Standing: free()}, []Wait{{Reason: Next}}},
		"no topic": {Facts{Job: delayed}, []Wait{{Reason: NotDue, Until: later}}},
	} {
		if got := Of(c.facts); !slices.Equal(got, c.want) && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
