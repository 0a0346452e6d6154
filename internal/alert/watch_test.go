package alert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// world is what a watch reads.
type world struct {
	topics  map[string]*registry.Topic
	totals  map[string]observe.TopicTotals
	limits  map[string]observe.TopicLimits
	active  []string
	late    map[string]activity.Histogram
	called  time.Time // when the last call was late; zero: always
	up      bool
	journal error
	shards  []ShardFinding
	err     error         // of every call of the queue
	reads   int           // of single topics
	slow    time.Duration // duration of these calls
	told    map[string]int64
	last    []activity.Attempt // nil: one died, one was delivered
	lost    error              // of the registry
	refused refusals.Streak
	unread  error // of refused
}

func (w *world) Active(context.Context, time.Time) ([]string, error) { return w.active, w.err }

func (w *world) Counts(context.Context) (map[string]store.Stats, error) {
	all := map[string]store.Stats{}
	for name, t := range w.totals {
		all[name] = t.Stats
	}
	return all, w.err
}

func (w *world) Totals(ctx context.Context, names []string) (map[string]observe.TopicTotals, error) {
	w.reads += len(names)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(w.slow):
	}
	return w.totals, w.err
}

func (w *world) TopicLimits(context.Context, []string) (map[string]observe.TopicLimits, error) {
	return w.limits, w.err
}

func (w *world) LastDead(_ context.Context, topic string, limit int) (list []store.Job, _ error) {
	for i := range limit {
		list = append(list, store.Job{Topic: topic, ID: fmt.Sprint(i),
			History: []store.Attempt{{Error: "timed out"}, {Error: "the endpoint answered 500"}}})
	}
	return list, nil
}

func (w *world) Attempts(context.Context, string, int) ([]activity.Attempt, error) {
	if w.last != nil {
		return w.last, nil
	}
	return []activity.Attempt{
		{ID: "2", Outcome: "dead", Error: "the endpoint answered 500"},
		{ID: "1", Outcome: "done"},
	}, nil
}

func (w *world) Lateness(_ context.Context, _ []string, since time.Time) (map[string]activity.Histogram, error) {
	if !w.called.IsZero() && w.called.Before(since) {
		return nil, w.err
	}
	return w.late, w.err
}

// ClaimDeaths works as the store's.
func (w *world) ClaimDeaths(_ context.Context, counts map[string]Deaths) (map[string]int64, error) {
	if w.lost != nil {
		return nil, w.lost
	}
	begun, news := w.told != nil, map[string]int64{}
	if !begun {
		w.told = map[string]int64{}
	}
	for name, n := range counts {
		if begun && n.Count > w.told[name] {
			news[name] = n.Count - w.told[name]
		}
		w.told[name] = n.Count
	}
	return news, nil
}

func (w *world) watch() *Watch {
	return NewWatch(Sources{
		Queue: w, Activity: w, Snapshot: func() *registry.Snapshot {
			return &registry.Snapshot{Topics: registry.NewTopics(slices.Collect(maps.Values(w.topics))...)}
		}, RegistryUp: func() bool { return w.up },
		Journal: func() error { return w.journal }, Shards: func() []ShardFinding { return w.shards },
		Refused: func(context.Context) (refusals.Streak, error) { return w.refused, w.unread }, ClaimDeaths: w.ClaimDeaths,
	})
}

func newWorld() (*world, *Watch) {
	w := &world{
		topics: map[string]*registry.Topic{},
		totals: map[string]observe.TopicTotals{},
		limits: map[string]observe.TopicLimits{},
		late:   map[string]activity.Histogram{},
		up:     true,
	}
	for _, name := range []string{"a", "b"} {
		t := registry.NewTopic(name)
		t.Emails = []string{"shop@test.example"}
		w.topics[name] = &t
	}
	return w, w.watch()
}

// kinds calls Find every five seconds for a while, and returns the last findings.
func kinds(t *testing.T, w *Watch, span time.Duration) []string {
	t.Helper()
	var found map[string]bool
	var list []Finding
	for end := time.Now().Add(span); !time.Now().After(end); time.Sleep(defaultEvery) {
		found = map[string]bool{}
		list, _ = w.Find(t.Context(), Defaults().Rules)
		for _, f := range list {
			found[f.Kind+" "+f.Topic+f.Shard] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// TestWhatCannotBeSeenIsNotOver: while a shard does not answer, alerts that need its numbers neither begin nor end.
func TestWhatCannotBeSeenIsNotOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active = []string{"a"}
		kinds(t, watch, 0)
		w.totals["a"] = observe.TopicTotals{
			Total: observe.Totals{Pushed: 30, Delivered: 10, Failed: 20, Died: 20, Dropped: 20},
		}
		w.limits["a"] = observe.TopicLimits{Failures: 12, BreakerOpen: time.Now().Add(time.Hour)}
		want := []string{"breaker a", "dead a", "topic_failing a"}
		if got := kinds(t, watch, 0); !slices.Equal(got, want) {
			t.Fatalf("found %q", got)
		}
		watch.Dead(t.Context())
		kinds(t, watch, defaultSpan)
		over := func() (list []string) {
			found, judge := watch.Find(t.Context(), Defaults().Rules)
			for _, kind := range []string{"no_consumer", "topic_failing", "dead", "breaker", "late", "ledger"} {
				is := func(f Finding) bool { return f.Kind == kind }
				if !slices.ContainsFunc(found, is) && judge(Finding{Topic: "a", Cause: Cause{Kind: kind}}) {
					list = append(list, kind)
				}
			}
			return list
		}
		w.err = &queue.PartialError{Shards: []string{"r2"}, Err: errors.New("refused")}
		w.shards = []ShardFinding{{Shard: "r2", Kind: "down"}}
		limits := w.limits
		w.limits = nil
		if got := kinds(t, watch, time.Minute); !slices.Equal(got, []string{"shard_down r2"}) {
			t.Errorf("with a shard down, %q begin", got)
		}
		if got := over(); len(got) > 0 {
			t.Errorf("with a shard down, %q are over", got)
		}
		_, judge := watch.Find(t.Context(), Defaults().Rules)
		if judge(Finding{Shard: "r2", Cause: Cause{Kind: "shard_memory"}}) ||
			!judge(Finding{Shard: "r1", Cause: Cause{Kind: "shard_memory"}}) {
			t.Error("an alert on a shard that is down must not end; one on another shard may")
		}
		w.err, w.shards, w.limits = nil, nil, limits
		if got := kinds(t, watch, 10*time.Second); !slices.Equal(got, want) {
			t.Errorf("with all shards back, %q", got)
		}
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("old deaths are reported again: %+v", list)
		}
		if got := over(); len(got) > 0 {
			t.Errorf("right after a gap, %q are over", got)
		}
		kinds(t, watch, 30*time.Second)
		if got := over(); !slices.Contains(got, "ledger") ||
			slices.Contains(got, "no_consumer") {
			t.Errorf("half a minute later, %q are over", got)
		}
		kinds(t, watch, trendSpan)
		if got := over(); len(got) != 5 {
			t.Errorf("ten minutes later, %q are over", got)
		}
	})
}

// TestANewWatchEndsNothing that it has not watched for as long as its rule requires: it may be the first round after a
// restart.
func TestANewWatchEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, watch := newWorld()
		ends := map[string]time.Duration{}
		for time.Since(began) < 15*time.Minute {
			_, judge := watch.Find(t.Context(), Defaults().Rules)
			for kind, topic := range map[string]string{
				"shard_down": "", "shard_slow": "", "registry": "", "ledger": "a",
				"no_consumer": "a", "topic_failing": "a", "dead": "a",
			} {
				if _, known := ends[kind]; !known && judge(Finding{Topic: topic, Cause: Cause{Kind: kind}}) {
					ends[kind] = time.Since(began)
				}
			}
			time.Sleep(defaultEvery)
		}
		want := map[string]time.Duration{
			"shard_down": defaultSpan, "shard_slow": slowSpan, "registry": defaultSpan, "ledger": defaultSpan,
			"no_consumer": Defaults().Rules.NoConsumer.Std(), "topic_failing": failingSpan, "dead": trendSpan,
		}
		if !maps.Equal(ends, want) {
			t.Errorf("they end after %v, want %v", ends, want)
		}
	})
}

// TestAWatchEndsItsOwnFindingsAtOnce, even soon after its start.
func TestAWatchEndsItsOwnFindingsAtOnce(t *testing.T) {
	t.Parallel()
	w, watch := newWorld()
	w.shards = []ShardFinding{{Shard: "r1", Kind: "down"}}
	list, _ := watch.Find(t.Context(), Defaults().Rules)
	w.shards = nil
	_, judge := watch.Find(t.Context(), Defaults().Rules)
	if !judge(list[0]) {
		t.Error("it is not over")
	}
}

// TestAnOutageOfAShardIsOneAlert: late topics are part of it until it is long over.
func TestAnOutageOfAShardIsOneAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.totals["b"] = waiting(3, time.Minute)
		if got := kinds(t, watch, time.Minute); !slices.Equal(got, []string{"late b"}) {
			t.Errorf("before the outage: %q", got)
		}
		w.shards = []ShardFinding{{Shard: "r1", Kind: "down"}}
		w.totals["a"] = waiting(3, time.Minute)
		if got := kinds(t, watch, time.Minute); !slices.Equal(got, []string{"late b", "shard_down r1"}) {
			t.Errorf("during the outage: %q", got)
		}
		w.shards = nil
		if got := kinds(t, watch, time.Minute); !slices.Equal(got, []string{"late b"}) {
			t.Errorf("a minute after the outage: %q", got)
		}
		if got := kinds(t, watch, outageSpan); !slices.Contains(got, "late a") {
			t.Errorf("jobs still wait, and there are %q", got)
		}
	})
}

// TestLatenessThatEndedDuringAnOutageIsOver within 30 s after it: then jobs do not wait because of the outage.
func TestLatenessThatEndedDuringAnOutageIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.totals["b"] = waiting(3, time.Minute)
		kinds(t, watch, time.Minute)
		w.shards = []ShardFinding{{Shard: "r1", Kind: "down"}}
		kinds(t, watch, 10*time.Second)
		w.shards, w.totals["b"] = nil, observe.TopicTotals{}
		kinds(t, watch, defaultSpan)
		if _, judge := watch.Find(t.Context(), Defaults().Rules); !judge(Finding{Topic: "b", Cause: Cause{Kind: "late"}}) {
			t.Error("it is not over")
		}
	})
}

// TestIdleTopicsCostNothing: a thousand of them are not read one by one in every round.
func TestIdleTopicsCostNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		for i := range 1000 {
			x := registry.NewTopic(fmt.Sprint("t", i))
			w.topics[x.Name] = &x
		}
		kinds(t, watch, time.Hour)
		if w.reads > 1100 {
			t.Errorf("%d reads of topics in an hour", w.reads)
		}
	})
}
