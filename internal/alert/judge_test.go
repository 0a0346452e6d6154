package alert

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

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
			w.limits["a"] = observe.TopicLimits{Failures: 12, BreakerOpen: time.Now().Add(time.Second)}
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
			w.totals["a"] = observe.TopicTotals{Total: observe.Totals{Pushed: 5, Delivered: 3}}
			w.active = []string{"a"}
		}, []string{"ledger a"}},
		"even": {time.Minute, func(w *world) {
			w.totals["a"] = observe.TopicTotals{Total: observe.Totals{Pushed: 5, Delivered: 5}}
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

func waiting(n int64, oldest time.Duration) observe.TopicTotals {
	return observe.TopicTotals{Total: observe.Totals{Pushed: n}, Stats: store.Stats{Ready: n, OldestReady: oldest}}
}

func TestAFailingTopicIsFoundAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active = []string{"a"}
		kinds(t, watch, 0)
		w.totals["a"] = observe.TopicTotals{
			Total: observe.Totals{Pushed: 30, Delivered: 10, Failed: 20, Died: 20, Dropped: 20},
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

// TestATopicsObjectiveIsItsOwn: the longest pattern wins, whatever the objective of all topics together is.
func TestATopicsObjectiveIsItsOwn(t *testing.T) {
	t.Parallel()
	r := Defaults().Rules
	r.Objectives = map[string]registry.Duration{
		"*":         registry.Duration(time.Minute),
		"shop.*":    registry.Duration(time.Second),
		"shop.mail": 0,
	}
	for topic, want := range map[string]time.Duration{"other": time.Minute, "shop.orders": time.Second,
		"shop.mail": 0} {
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

// TestALateTopicSaysWhenItIsCleared, and asks again after ten seconds.
func TestALateTopicSaysWhenItIsCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		asked := 0
		watch.src.Forecast = func(_ context.Context, topic string) forecast.Answer {
			asked++
			return forecast.Answer{Waiting: 3, Clear: time.Duration(asked) * time.Minute}
		}
		w.totals["a"] = waiting(3, 10*time.Minute)
		for round, want := range []time.Duration{time.Minute, time.Minute, 2 * time.Minute} {
			list, _ := watch.Find(t.Context(), Defaults().Rules)
			if len(list) != 1 || list[0].Forecast.Clear != want {
				t.Errorf("round %d found %+v", round, list)
			}
			time.Sleep(6 * time.Second)
		}
	})
}

// TestLatenessRecoversWithTheCalls: while those of the last minute count, those of the last seconds may be in time.
func TestLatenessRecoversWithTheCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active, w.late["a"], w.called = []string{"a"}, activity.Histogram{200: 100}, time.Now()
		for _, recovering := range []bool{false, true} {
			list, _ := watch.Find(t.Context(), Defaults().Rules)
			if len(list) != 1 || list[0].Kind != "late" || list[0].Recovering != recovering {
				t.Errorf("%s after the last late call: %+v", time.Since(w.called), list)
			}
			time.Sleep(defaultSpan)
		}
	})
}

// TestABreakerThatClosedWhileTheEndpointFailsIsFound until the calls are delivered: one response of another kind closes
// it, and is not the cause.
func TestABreakerThatClosedWhileTheEndpointFailsIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active = []string{"a"}
		w.last = []activity.Attempt{{Outcome: "dead", Reason: "status", Status: 422}}
		for range 9 {
			w.last = append(w.last, activity.Attempt{Outcome: "retry", Reason: "status", Status: 503})
		}
		var moved observe.Totals
		round := func(delivered, failed int64) string {
			t.Helper()
			time.Sleep(defaultEvery)
			moved.Pushed, moved.Delivered = moved.Pushed+delivered, moved.Delivered+delivered
			moved.Failed += failed
			w.totals["a"] = observe.TopicTotals{Total: moved}
			list, _ := watch.Find(t.Context(), Defaults().Rules)
			for _, f := range list {
				if f.Kind == "breaker" {
					return f.Say(english(t)("en"), brief)
				}
			}
			return ""
		}
		round(0, 0)
		w.limits["a"] = observe.TopicLimits{Failures: 10, BreakerOpen: time.Now().Add(time.Minute)}
		const open = "the endpoint returns 503: 10 calls in a row failed; only one probe at a time is sent"
		if got := round(0, 10); got != open {
			t.Errorf("open: %q", got)
		}
		w.limits["a"] = observe.TopicLimits{}
		for range 24 { // two minutes
			got := round(22, 78)
			if !strings.HasPrefix(got, "the endpoint returns 503: ") || strings.Contains(got, "probe") {
				t.Fatalf("closed, and 78 of 100 calls fail: %q", got)
			}
		}
		for range 5 {
			round(100, 0)
		}
		if got := round(100, 0); got != "" {
			t.Errorf("half a minute after it recovered: %q", got)
		}
		w.limits["a"] = observe.TopicLimits{Failures: 10, BreakerOpen: time.Now().Add(time.Hour)}
		for range 24 {
			round(0, 1)
		}
		w.limits["a"] = observe.TopicLimits{}
		if got := round(100, 0); got != "" {
			t.Errorf("after an outage the backlog is delivered, and few of the calls were probes: %q", got)
		}
	})
}

// TestAFailingTopicsAlertNamesItsErrors: the detail of the alert names the endpoint's most frequent error.
func TestAFailingTopicsAlertNamesItsErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.limits["a"] = observe.TopicLimits{Failures: 12, BreakerOpen: time.Now().Add(time.Hour)}
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
