package alert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/alert/activity"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// world is what a watch reads.
type world struct {
	topics  map[string]*registry.Topic
	totals  map[string]queue.TopicTotals
	limits  map[string]queue.TopicLimits
	active  []string
	late    map[string]activity.Histogram
	up      bool
	journal error
	shards  []ShardFinding
	err     error         // of every call of the queue
	reads   int           // of single topics
	slow    time.Duration // duration of these calls
	told    map[string]int64
	last    []activity.Attempt // nil: one died, one was delivered
	lost    error              // of the registry
}

func (w *world) Active(context.Context, time.Time) ([]string, error) { return w.active, w.err }
func (w *world) Counts(context.Context) (map[string]queue.Stats, error) {
	all := map[string]queue.Stats{}
	for name, t := range w.totals {
		all[name] = t.Stats
	}
	return all, w.err
}
func (w *world) Totals(ctx context.Context, names []string) (map[string]queue.TopicTotals, error) {
	w.reads += len(names)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(w.slow):
	}
	if w.err != nil {
		return map[string]queue.TopicTotals{
			"a": {Total: queue.Totals{Pushed: 3, Died: 1}},
		}, w.err // findings of the other shards
	}
	return w.totals, nil
}
func (w *world) TopicLimits(context.Context, []string) (map[string]queue.TopicLimits, error) {
	return w.limits, w.err
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
func (w *world) Lateness(context.Context, []string, time.Time) (map[string]activity.Histogram, error) {
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
		ClaimDeaths: w.ClaimDeaths,
	})
}

func newWorld() (*world, *Watch) {
	w := &world{
		topics: map[string]*registry.Topic{},
		totals: map[string]queue.TopicTotals{},
		limits: map[string]queue.TopicLimits{},
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

func TestEachProblemIsFound(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		span  time.Duration
		world func(w *world)
		want  []string
	}{
		"nothing": {5 * time.Minute, func(*world) {}, nil},
		"shard": {
			0,
			func(w *world) { w.shards = []ShardFinding{{Shard: "r1", Kind: "down"}} },
			[]string{"shard_down r1"},
		},
		"registry":    {time.Minute, func(w *world) { w.up = false }, []string{"registry "}},
		"a short gap": {5 * time.Second, func(w *world) { w.up = false }, nil},
		"journal":     {0, func(w *world) { w.journal = errors.New("no space left") }, []string{"journal "}},
		"breaker": {0, func(w *world) {
			w.limits["a"] = queue.TopicLimits{Failures: 12, BreakerOpen: time.Now().Add(time.Second)}
		}, []string{"breaker a"}},
		"no consumer": {
			3 * time.Minute,
			func(w *world) { w.totals["a"] = waiting(3, time.Second) },
			[]string{"no_consumer a"},
		},
		"waiting": {0, func(w *world) { w.totals["a"] = waiting(3, 10*time.Minute) }, []string{"late a"}},
		"paused": {
			9 * time.Minute,
			func(w *world) { w.topics["a"].State = registry.TopicPaused; w.totals["a"] = waiting(3, time.Hour) },
			[]string{"paused a"},
		},
		"ledger": {time.Minute, func(w *world) {
			w.totals["a"] = queue.TopicTotals{Total: queue.Totals{Pushed: 5, Delivered: 3}}
			w.active = []string{"a"}
		}, []string{"ledger a"}},
		"even": {time.Minute, func(w *world) {
			w.totals["a"] = queue.TopicTotals{Total: queue.Totals{Pushed: 5, Delivered: 5}}
			w.active = []string{"a"}
		}, nil},
		"called late": {0, func(w *world) {
			w.late["b"], w.active = activity.Histogram{200: 100}, []string{"b"}
		}, []string{"late b"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, watch := newWorld()
				test.world(w)
				if got := kinds(t, watch, test.span); !slices.Equal(got, test.want) {
					t.Errorf("found %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestAPullTopicWithoutWorkersIsFound after five minutes with 300 jobs. Fewer jobs may wait for a worker; numbers
// around the limit are one alert, and a worker ends it.
func TestAPullTopicWithoutWorkersIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.topics["a"].Delivery = registry.DeliveryPull
		w.totals["a"] = waiting(299, time.Hour)
		if got := kinds(t, watch, 10*time.Minute); len(got) != 0 {
			t.Errorf("with 299 jobs %q", got)
		}
		w.topics["b"].Delivery = registry.DeliveryPull
		w.totals["b"] = waiting(300, time.Hour)
		if got := kinds(t, watch, 4*time.Minute); len(got) != 0 {
			t.Errorf("after 4 minutes %q", got)
		}
		found := []string{"no_worker b"}
		if got := kinds(t, watch, 3*time.Minute); !slices.Equal(got, found) {
			t.Errorf("after 7 minutes %q", got)
		}
		w.totals["b"] = waiting(160, time.Hour)
		if got := kinds(t, watch, time.Minute); !slices.Equal(got, found) {
			t.Errorf("with 160 jobs left %q", got)
		}
		taken := waiting(160, time.Hour)
		taken.Stats.Ready, taken.Stats.Running = 159, 1
		w.totals["b"] = taken
		if got := kinds(t, watch, time.Minute); len(got) != 0 {
			t.Errorf("with a worker %q", got)
		}
	})
}

func waiting(n int64, oldest time.Duration) queue.TopicTotals {
	return queue.TopicTotals{Total: queue.Totals{Pushed: n}, Stats: queue.Stats{Ready: n, OldestReady: oldest}}
}

func TestAFailingTopicIsFoundAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active = []string{"a"}
		kinds(t, watch, 0)
		w.totals["a"] = queue.TopicTotals{
			Total: queue.Totals{Pushed: 30, Delivered: 10, Failed: 20, Died: 20, Dropped: 20},
		}
		if got := kinds(t, watch, 0); !slices.Equal(got, []string{"dead a", "topic_failing a"}) {
			t.Errorf("found %q", got)
		}
		if got := kinds(t, watch, 6*time.Minute); !slices.Equal(got, []string{"dead a"}) {
			t.Errorf("six minutes later %q", got)
		}
		if got := kinds(t, watch, 6*time.Minute); len(got) > 0 {
			t.Errorf("twelve minutes later %q", got)
		}
	})
}

// TestWhatCannotBeSeenIsNotOver: while a shard does not answer, alerts that need its numbers neither begin nor end.
func TestWhatCannotBeSeenIsNotOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active = []string{"a"}
		kinds(t, watch, 0)
		w.totals["a"] = queue.TopicTotals{
			Total: queue.Totals{Pushed: 30, Delivered: 10, Failed: 20, Died: 20, Dropped: 20},
		}
		w.limits["a"] = queue.TopicLimits{Failures: 12, BreakerOpen: time.Now().Add(time.Hour)}
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
			for kind, topic := range map[string]string{"shard_down": "", "shard_slow": "", "registry": "", "ledger": "a",
				"no_consumer": "a", "topic_failing": "a", "dead": "a"} {
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

// TestATopicsObjectiveIsItsOwn: the longest pattern wins, whatever the objective of all topics together is.
func TestATopicsObjectiveIsItsOwn(t *testing.T) {
	t.Parallel()
	r := Defaults().Rules
	r.Objectives = map[string]registry.Duration{
		"*":         registry.Duration(time.Minute),
		"shop.*":    registry.Duration(time.Second),
		"shop.mail": 0,
	}
	for topic, want := range map[string]time.Duration{"other": time.Minute, "shop.orders": time.Second, "shop.mail": 0} {
		if got := r.Objective(&registry.Topic{Name: topic}); got != want {
			t.Errorf("the objective of %s is %s, want %s", topic, got, want)
		}
	}
	pull := registry.Topic{Name: "jobs", Delivery: registry.DeliveryPull}
	if own, common := r.Objective(&pull), Defaults().Rules; own != time.Minute || common.Objective(&pull) != 0 {
		t.Errorf("the objective of a pull topic is %s, by default %s", own, common.Objective(&pull))
	}
	w, watch := newWorld()
	w.late["a"], w.late["b"] = activity.Histogram{200: 100}, activity.Histogram{200: 100}
	w.active = []string{"a", "b"}
	r.Objectives = map[string]registry.Duration{"a": registry.Duration(time.Second)}
	r.Lateness = 0
	if list, _ := watch.Find(t.Context(), r); len(list) != 1 || list[0].id() != "late//a" {
		t.Errorf("found %+v", list)
	}
	r.Lateness = registry.Duration(time.Second)
	r.Objectives["a"] = 0
	if list, _ := watch.Find(t.Context(), r); len(list) != 1 || list[0].id() != "late//b" {
		t.Errorf("with the rule off for a: %+v", list)
	}
}

// TestADigestHasNewDeathsOnly, and only of topics with addresses.
func TestADigestHasNewDeathsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.topics["b"].Emails = nil
		died := func(n int64) {
			for _, name := range []string{"a", "b"} {
				w.totals[name] = queue.TopicTotals{Total: queue.Totals{Pushed: n, Died: n}, Stats: queue.Stats{Dead: n}}
			}
			w.active = []string{"a", "b"}
		}
		died(7) // before its first round
		kinds(t, watch, 0)
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("old deaths: %+v", list)
		}
		died(9)
		kinds(t, watch, 0)
		list := watch.Dead(t.Context())
		if len(list) != 1 || list[0].Topic != "a" || list[0].Count != 2 ||
			fmt.Sprint(list[0].Last) != "[{2 the endpoint answered 500}]" {
			t.Errorf("new deaths: %+v", list)
		}
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("the same again: %+v", list)
		}
		died(12) // while no watch runs
		watch = w.watch()
		kinds(t, watch, 0)
		w.lost = errors.New("away")
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("without the registry: %+v", list)
		}
		w.lost = nil
		if list := watch.Dead(t.Context()); len(list) != 1 || list[0].Count != 3 {
			t.Errorf("a new watch: %+v", list)
		}
	})
}

// TestATopicIsLateWhileItsJobsWait, whatever the lateness of the last minute's calls, until it is well below its limit.
func TestATopicIsLateWhileItsJobsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		late := func(oldest time.Duration, bucket int) bool {
			t.Helper()
			w.totals["a"], w.late["a"] = waiting(3, oldest), activity.Histogram{bucket: 100}
			return slices.Contains(kinds(t, watch, 0), "late a")
		}
		if late(4*time.Second, 0) {
			t.Error("it is late below the limit of five seconds")
		}
		if !late(21*time.Minute, 0) {
			t.Error("its jobs have waited for 21 minutes, but it is not late")
		}
		if !late(4*time.Second, 0) || !late(0, 81) {
			t.Error("it flaps around its limit")
		}
		if late(2*time.Second, 0) {
			t.Error("it is still late")
		}
	})
}

// TestAFailingTopicsAlertNamesItsErrors: the detail of the alert names the endpoint's most frequent error.
func TestAFailingTopicsAlertNamesItsErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.limits["a"] = queue.TopicLimits{Failures: 12, BreakerOpen: time.Now().Add(time.Hour)}
		say := english(t)("en")
		for _, c := range []struct {
			last activity.Attempt
			want string
		}{
			{activity.Attempt{Outcome: "retry", Reason: "status", Status: 429}, "the endpoint returns 429: 12 calls"},
			{activity.Attempt{Outcome: "retry", Reason: "timeout"}, "the endpoint times out"},
			{activity.Attempt{Outcome: "dead", Reason: "refused"}, "the endpoint refuses connections"},
			{activity.Attempt{Outcome: "retry", Reason: "retry_if", Status: 200}, "for which retry_if is true"},
		} {
			w.last = []activity.Attempt{{Outcome: "done", Status: 200}, c.last}
			list, _ := watch.Find(t.Context(), Defaults().Rules)
			if len(list) != 1 || !strings.Contains(list[0].Say(say, brief), c.want) {
				t.Errorf("%+v has the text %+v", c.last, list)
			}
			time.Sleep(answersEvery)
		}
	})
}

// TestFailedAttemptsOfWorkersNameNoEndpoint: an alert names an endpoint's answers only for topics that have one.
func TestFailedAttemptsOfWorkersNameNoEndpoint(t *testing.T) {
	t.Parallel()
	say := english(t)("en")
	for answer, want := range map[string]string{
		"500":   "3 of 4 attempts in five minutes failed: the endpoint returns 500",
		"lease": "3 of 4 attempts in five minutes failed",
	} {
		c := Cause{Kind: "topic_failing", N: 3, Of: 4, Answer: answer}
		if got := c.Say(say, brief); got != want {
			t.Errorf("%s: %q; want %q", answer, got, want)
		}
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
