package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestJobsWaitForATopicThatCannotBeCalled: a stored retry_if that is no longer allowed costs no attempt.
func TestJobsWaitForATopicThatCannotBeCalled(t *testing.T) {
	i := start(t, func(o *Options) {
		snap := *o.Topics()
		broken := *snap.Topics.Get("t")
		broken.Name, broken.RetryIf = "broken", `repeat(body, 9) == ""`
		snap.Topics = registry.NewTopics(&broken, snap.Topics.Get("t"))
		o.Topics = func() *registry.Snapshot { return &snap }
	})
	i.push("broken", "b", 0)
	i.push("t", "other", 0)
	eventually(t, "the other topic's job is delivered", func() bool { return i.gone("t", "other") })
	eventually(t, "the job waits with a reason", func() bool {
		j, err := i.q.Get(t.Context(), "broken", "b")
		return err == nil && j.State == store.Delayed && j.Attempts == 0 && len(j.History) == 1 &&
			strings.Contains(j.History[0].Error, "retry_if")
	})
	if n := i.called("b"); n != 0 {
		t.Fatalf("it was called %d times", n)
	}
}

// TestTopicsOfANamespaceShareItsEndpoint: it is compiled once, however many topics and calls they have.
func TestTopicsOfANamespaceShareItsEndpoint(t *testing.T) {
	snap := registry.Snapshot{Topics: registry.NewTopics(
		&registry.Topic{Name: "shop.*", CallbackURL: "http://127.0.0.1/"})}
	d := New(Options{Topics: func() *registry.Snapshot { return &snap }})
	var first *callback.Endpoint
	for _, name := range []string{"shop.a", "shop.a", "shop.b"} {
		e, err := d.endpoint(snap.Topic(name))
		if err != nil || first != nil && e != first {
			t.Fatalf("%s: %p, %v; the first topic has %p", name, e, err, first)
		}
		first = e
	}
}

func TestTopicsThatArePausedDeletedOrTooLate(t *testing.T) {
	i := start(t, func(o *Options) {
		snap := *o.Topics()
		paused := *snap.Topics.Get("slow")
		paused.State = registry.TopicPaused
		old := *snap.Topics.Get("t")
		old.Name, old.ExpiresAfter = "old", registry.Duration(time.Second)
		snap.Topics = registry.NewTopics(&paused, &old)
		o.Topics = func() *registry.Snapshot { return &snap }
	})
	i.push("slow", "p", 0)
	i.push("deleted", "d", 0)
	if r := i.q.Push(t.Context(), store.Push{Topic: "old", ID: "o", DueAt: time.Now().Add(-time.Hour)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for id, want := range map[string]string{"deleted": "topic deleted", "old": "expired"} {
		eventually(t, want, func() bool {
			j, err := i.q.Get(t.Context(), id, id[:1])
			return err == nil && j.State == store.Dead && j.DeadReason == want && j.Attempts == 0
		})
	}
	j, err := i.q.Get(t.Context(), "slow", "p")
	if err != nil || j.Attempts != 0 || j.State == store.Dead || i.called("p")+i.called("d")+i.called("o") != 0 {
		t.Fatalf("paused: %+v, %v", j, err)
	}
}

// TestAResumedTopicIsReadBeforeItsJobIsReleased: Redis may give out the job before this process has read the change.
func TestAResumedTopicIsReadBeforeItsJobIsReleased(t *testing.T) {
	for _, was := range []registry.Topic{
		{Name: "t", State: registry.TopicPaused},
		{Name: "t", State: registry.TopicActive, Delivery: registry.DeliveryPull},
	} {
		snap := &registry.Snapshot{Topics: registry.NewTopics(&was)}
		d := New(Options{
			Topics: func() *registry.Snapshot { return snap },
			Refresh: func(context.Context) {
				snap = &registry.Snapshot{Topics: registry.NewTopics(&registry.Topic{Name: "t", State: registry.TopicActive})}
			},
		})
		if got := d.topic("t"); got == nil || !got.IsCalled() {
			t.Errorf("%+v became %+v", was, got)
		}
	}
}

// TestJobsWaitForATopicThatTheRegistryLost: another registry, or an old backup of it, must not make jobs dead.
func TestJobsWaitForATopicThatTheRegistryLost(t *testing.T) {
	errAsk := errors.New("the database is away")
	var away atomic.Bool
	var questions, asked atomic.Int32 // about the deleted topic, and the lost one
	var snap atomic.Pointer[registry.Snapshot]
	away.Store(true)
	i := start(t, func(o *Options) {
		snap.Store(o.Topics())
		o.Topics = snap.Load
		o.Deleted = func(_ context.Context, topic string) (bool, error) {
			if topic == "deleted" {
				questions.Add(1)
				return true, nil
			}
			asked.Add(1)
			if away.Load() {
				return false, errAsk
			}
			return false, nil
		}
	})
	i.push("lost", "l", 0)
	const jobs = 20
	for n := range jobs {
		i.push("deleted", fmt.Sprint(n), 0)
	}
	for n := range jobs {
		eventually(t, "a deleted topic's job is dead", func() bool {
			j, err := i.q.Get(t.Context(), "deleted", fmt.Sprint(n))
			return err == nil && j.State == store.Dead && j.DeadReason == "topic deleted"
		})
	}
	if n := questions.Load(); n != 1 {
		t.Errorf("the audit trail was queried %d times for %d jobs, want once", n, jobs)
	}
	j, err := i.q.Get(t.Context(), "lost", "l")
	if err != nil || j.State == store.Dead || len(j.History) != 0 {
		t.Fatalf("while the database is away: %+v, %v", j, err)
	}
	away.Store(false)
	asked.Store(0)
	eventually(t, "the audit trail is queried again", func() bool { return asked.Load() > 0 })
	j, err = i.q.Get(t.Context(), "lost", "l")
	if err != nil || j.State == store.Dead || j.Attempts+j.Snoozes+len(j.History) != 0 {
		t.Fatalf("the job is %+v, %v", j, err)
	}
	restored := *i.snap.Topics.Get("t")
	restored.Name = "lost"
	snap.Store(&registry.Snapshot{Revision: i.snap.Revision + 1, Topics: i.snap.Topics.With("lost", &restored)})
	eventually(t, "the job is delivered", func() bool { return i.gone("lost", "l") })
}

// TestAHostWithAnotherRegistryHoldsUpNoTopic of the others: it knows none of their topics.
func TestAHostWithAnotherRegistryHoldsUpNoTopic(t *testing.T) {
	i := start(t)
	i.run(func(o *Options) {
		o.Topics = func() *registry.Snapshot { return &registry.Snapshot{} }
		o.Deleted = func(context.Context, string) (bool, error) { return false, nil }
	})
	const jobs = 300
	for n := range jobs {
		i.push("t", fmt.Sprint(n), 0)
	}
	for n := range jobs {
		eventually(t, "a job is delivered", func() bool { return i.gone("t", fmt.Sprint(n)) })
	}
	limits, err := observe.Figures{Queue: i.q}.TopicLimits(t.Context(), []string{"t"})
	if l := limits["t"]; err != nil || l.Failures > 0 || !l.BreakerOpen.IsZero() {
		t.Errorf("the topic's limits: %+v, %v", l, err)
	}
}

func TestATopicThatIsNewHereIsWaitedFor(t *testing.T) {
	var news atomic.Pointer[registry.Snapshot]
	i := start(t, func(o *Options) {
		news.Store(o.Topics())
		o.Topics = news.Load
	})
	i.push("new", "n", 0)
	old := news.Load()
	next := &registry.Snapshot{Revision: old.Revision + 1}
	topic := *old.Topics.Get("t")
	topic.Name = "new"
	next.Topics = registry.NewTopics(&topic)
	eventually(t, "the job is reserved", func() bool {
		j, err := i.q.Get(t.Context(), "new", "n")
		return err == nil && j.State == store.Running
	})
	news.Store(next)
	eventually(t, "the job is delivered", func() bool { return i.gone("new", "n") })
}
