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

// Topics whose reading takes seconds are read in at most a tenth of the time. Meanwhile, earlier findings stay.
func TestReadingTopicsTakesATenthOfTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active, w.slow = []string{"a"}, 2*time.Second
		w.totals["a"] = waiting(3, time.Minute)
		const rounds = 40
		for range rounds {
			list, _ := watch.Find(t.Context(), Defaults().Rules)
			if !slices.ContainsFunc(list, func(f Finding) bool { return f.id() == "late//a" }) {
				t.Fatalf("found %+v", list)
			}
			time.Sleep(defaultEvery)
		}
		if most := rounds * int(defaultEvery) / int(9*w.slow); w.reads > most+1 {
			t.Errorf("%d rounds read the topic %d times", rounds, w.reads)
		}
	})
}

// The same applies when a round's time limit is too short for reading them.
func TestReadingTopicsThatTimesOutTakesATenthOfTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active, w.slow = []string{"a"}, time.Minute
		const rounds = 40
		for range rounds {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, judge := watch.Find(ctx, Defaults().Rules)
			cancel()
			if judge(Finding{Topic: "a", Cause: Cause{Kind: "late"}}) {
				t.Fatal("a topic that was not read has no problem")
			}
			time.Sleep(defaultEvery)
		}
		if most := rounds*int(defaultEvery+2*time.Second)/int(10*2*time.Second) + 1; w.reads > most {
			t.Errorf("%d rounds read the topic %d times", rounds, w.reads)
		}
	})
}
