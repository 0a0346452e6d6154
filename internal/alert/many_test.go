package alert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// Hundreds of topics with the same problem are a hundred alerts and one that counts the others. The hundred stay the
// same when others become worse.
func TestManyTopicsWithAProblemAreFewAlerts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		const topics = 300
		late := func(n int, wait func(i int) time.Duration) (own []string, more Finding) {
			clear(w.totals)
			for i := range n {
				w.totals[fmt.Sprint("t", i)] = waiting(3, wait(i))
			}
			time.Sleep(defaultEvery)
			list, _ := watch.Find(t.Context(), Defaults().Rules)
			for _, f := range list {
				switch f.Kind {
				case "late":
					own = append(own, f.Topic)
				case manyTopics:
					more = f
				}
			}
			slices.Sort(own)
			return own, more
		}
		for i := range topics {
			topic := registry.NewTopic(fmt.Sprint("t", i))
			w.topics[topic.Name] = &topic
			w.active = append(w.active, topic.Name)
		}
		longer := func(i int) time.Duration { return time.Minute + time.Duration(i)*time.Second }
		own, more := late(topics, longer)
		if len(own) != mostTopics || !slices.Contains(own, "t299") || slices.Contains(own, "t199") {
			t.Errorf("%d topics have alerts of their own, not the worst: %q", len(own), own)
		}
		if more.N != topics-mostTopics || more.Severity != Warning || more.Topic != "" {
			t.Errorf("the others are counted in %+v", more)
		}
		again, _ := late(topics, func(i int) time.Duration { return longer(topics - i) })
		if !slices.Equal(again, own) {
			t.Errorf("when others are later, the alerts are %q", again)
		}
		if own, more = late(mostTopics, longer); len(own) != mostTopics || more.N != 0 {
			t.Errorf("of %d late topics, %d have alerts, and %d have none", mostTopics, len(own), more.N)
		}
	})
}

// However many topics of one tenant have a problem, those of others get their alerts in the next round, and so do topics
// with recipients of their own.
func TestTopicsOfOneTenantLeaveOthersTheirAlerts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		late := func(name string, wait time.Duration) *registry.Topic {
			topic := registry.NewTopic(name)
			w.topics[name], w.active = &topic, append(w.active, name)
			w.totals[name] = waiting(3, wait)
			return &topic
		}
		find := func() (own map[string]bool) {
			time.Sleep(defaultEvery)
			list, _ := watch.Find(t.Context(), Defaults().Rules)
			own = map[string]bool{}
			for _, f := range list {
				own[f.Topic] = f.Kind == "late" || own[f.Topic]
			}
			return own
		}
		for i := range 150 {
			late(fmt.Sprint("shop.t", i), time.Hour)
		}
		before := find()
		late("bank.orders", time.Minute)
		late("shop.last", time.Minute).Emails = []string{"shop@test.example"}
		after := find()
		for _, name := range []string{"bank.orders", "shop.last"} {
			if !after[name] {
				t.Errorf("%s has no alert of its own", name)
			}
			before[name] = true
		}
		if !maps.Equal(after, before) {
			t.Errorf("alerts of %d topics have become alerts of %d", len(before), len(after))
		}
	})
}

// Topics whose reading takes seconds, or longer than a round may take, are not read in every round, but again within 15
// seconds, and at once when a shard is back. Meanwhile, earlier findings stay, and nothing is over.
func TestSlowReadingPausesForSeconds(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]time.Duration{"slow": 2 * time.Second, "timeout": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, watch := newWorld()
				w.active, w.slow = []string{"a"}, slow
				w.totals["a"] = waiting(3, time.Minute)
				round := func() (read bool) {
					t.Helper()
					time.Sleep(defaultEvery)
					before := w.reads
					ctx, cancel := context.WithTimeout(t.Context(), findLimit)
					defer cancel()
					list, judge := watch.Find(ctx, Defaults().Rules)
					isLate := slices.ContainsFunc(list, func(f Finding) bool { return f.id() == "late//a" })
					if over := judge(Finding{Topic: "a", Cause: Cause{Kind: "late"}}); isLate != (slow < findLimit) || over && !isLate {
						t.Fatalf("found %+v", list)
					}
					return w.reads > before
				}
				round()
				for range 10 {
					rounds := 1
					for !round() {
						rounds++
					}
					if pause := time.Duration(rounds) * defaultEvery; pause != readPause {
						t.Errorf("read again after %s", pause)
					}
				}
				w.shards = []ShardFinding{{Shard: "r1", Kind: "down"}}
				round()
				w.shards = nil
				if !round() {
					t.Error("not read when a shard was back")
				}
			})
		})
	}
}
