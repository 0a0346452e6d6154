package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func TestTheOrderOfTopics(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("a", "b", "c")
	for i := range 30 {
		for _, topic := range []string{"a", "b", "c"} {
			f.push(topic, fmt.Sprint(i), 0)
		}
	}
	count := map[string]int{}
	for range 15 {
		jobs := f.take(1, "a", "b", "c")
		count[jobs[0].Topic]++
	}
	if count["a"] != 5 || count["b"] != 5 || count["c"] != 5 {
		t.Errorf("in turn: %v", count)
	}
	if got := f.takeAs(store.TakeRequest{Topics: []string{"c", "a"}, Order: store.Listed, Max: 27}); len(got) != 27 ||
		got[24].Topic != "c" || got[25].Topic != "a" || got[0].ID != "5" {
		t.Errorf("listed: %v", idsOf(got))
	}
	for i := range 100 {
		for p := store.High; p <= store.Low; p++ {
			f.push("b", fmt.Sprint(p, i), 0, func(x *store.Push) { x.Priority = p })
		}
	}
	f.take(25, "b") // the rest of the previous take, or more
	by := map[store.Priority]int{}
	for range 100 {
		by[f.take(1, "b")[0].Priority]++
	}
	if by[store.High] != 50 || by[store.Normal] != 30 || by[store.Low] != 20 {
		t.Errorf("priorities: %v", by)
	}
}

func TestLimitsHoldForWorkers(t *testing.T) {
	f := newFixture(t)
	conf := store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3, Pull: true, MaxInFlight: 2}
	f.setTopics(conf)
	for i := range 10 {
		f.push("t", fmt.Sprint(i), 0)
	}
	jobs := f.take(5, "t")
	if len(jobs) != 2 || len(f.take(5, "t")) != 0 {
		t.Fatalf("took %d; want 2, and then none", len(jobs))
	}
	f.ended(store.End{Lease: jobs[0].Lease, Verb: store.Done})
	if n := len(f.take(5, "t")); n != 1 {
		t.Fatalf("took %d after an ack; want 1", n)
	}
	conf.MaxInFlight, conf.RateLimit = 0, 1
	f.setTopics(conf)
	if n := len(f.take(5, "t")); n != 1 {
		t.Fatalf("took %d at one a second", n)
	}
	conf.RateLimit, conf.Paused = 0, true
	f.setTopics(conf)
	if n := len(f.take(5, "t")); n != 0 {
		t.Fatalf("took %d of a paused topic", n)
	}
	conf.Paused = false
	f.setTopics(conf)
	if n := len(f.take(5, "t")); n != 5 {
		t.Fatalf("took %d when it was resumed", n)
	}
}

func TestATopicChangesItsDelivery(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0)
	f.push("t", "b", 0)
	f.pullTopics("t")
	if ls := f.reserve(10); len(ls) != 0 {
		t.Fatalf("a dispatcher reserved %d", len(ls))
	}
	jobs := f.take(1, "t")
	if len(jobs) != 1 {
		t.Fatal("a worker took nothing")
	}
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3})
	if got := f.take(10, "t"); len(got) != 0 {
		t.Fatalf("a worker took %v of a push topic", idsOf(got))
	}
	f.ended(store.End{Lease: jobs[0].Lease, Verb: store.Release})
	if ls := f.reserve(10); len(ls) != 2 {
		t.Fatalf("a dispatcher reserved %d; want 2", len(ls))
	}
}

// TestWorkersMayAwaitThousandsOfTopics: the topics of many workers share one call.
func TestWorkersMayAwaitThousandsOfTopics(t *testing.T) {
	f := newFixture(t)
	names := make([]string, 9000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	if _, err := f.b.Take(f.ctx, nil, names); err != nil {
		t.Error(err)
	}
	if n := f.s.Redis().ZCard(f.ctx, store.Prefix(0)+"awaited").Val(); n != 9000 {
		t.Errorf("%d topics are awaited", n)
	}
}

// TestATakeOfManyTopicsIsManyCalls: a single call for all of them would block the shard.
func TestATakeOfManyTopicsIsManyCalls(t *testing.T) {
	f := newFixture(t)
	names := make([]string, 9000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	last := names[len(names)-1]
	f.pullTopics(last)
	f.push(last, "a", 0)
	var asked []string
	for _, at := range f.q.Shards.Divide(names, store.Listed) {
		if asked = append(asked, at.Topics...); len(at.Topics) > 500 {
			t.Errorf("one call has %d topics", len(at.Topics))
		}
	}
	if !slices.Equal(asked, names) {
		t.Errorf("the calls have %d topics, want %d in their order", len(asked), len(names))
	}
	jobs, err := f.q.Take(f.ctx, store.TakeRequest{Topics: names, Max: 1, Order: store.Listed})
	if err != nil || len(jobs) != 1 || jobs[0].Topic != last {
		t.Errorf("took %+v, %v", jobs, err)
	}
}

// TestNotingManyTopicsIsOneRound: hubs register all awaited topics again and again, so the cost must not grow with
// their number. The answer has the topics with ready jobs.
func TestNotingManyTopicsIsOneRound(t *testing.T) {
	f := newFixture(t)
	names := make([]string, 400)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	f.pullTopics(names...)
	f.push("t7", "a", 0)
	cost := func(some []string) (calls int64) {
		before := f.calls()
		taken, err := f.b.Take(f.ctx, nil, some)
		if err != nil || !slices.Equal(taken.More, []string{"t7"}) {
			t.Fatalf("more of %v, %v", taken.More, err)
		}
		return f.calls() - before
	}
	cost(names) // loads the script
	if few, many := cost(names[:10]), cost(names); many > few+400 {
		t.Errorf("%d commands for 10 topics, %d for 400", few, many)
	}
}

// calls returns the number of commands that Redis has processed, including those in scripts.
func (f *fixture) calls() (n int64) {
	text := f.s.Redis().Info(f.ctx, "stats").Val()
	_, text, _ = strings.Cut(text, "total_commands_processed:")
	if _, err := fmt.Sscan(text, &n); err != nil {
		f.Fatal(err)
	}
	return n
}

// TestRequestsOfOneCallAreSharedOut: each gets at most as many jobs as it requested, with its own TTR, and none of
// those whose worker disconnected.
func TestRequestsOfOneCallAreSharedOut(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t", "u")
	for i := range 6 {
		f.push("t", fmt.Sprint(i), 0)
	}
	f.push("u", "other", 0)
	ask := func(topic string, most int, ttr time.Duration) store.TakeRequest {
		return store.TakeRequest{Topics: []string{topic}, Max: most, TTR: ttr}
	}
	left := ask("t", 9, 0)
	left.Alive = func() bool { return false }
	taken, err := f.b.Take(f.ctx, []store.TakeRequest{
		ask("t", 2, 0), ask("t", 1, time.Hour), left, ask("u", 1, 0), ask("t", 9, 0), ask("t", 9, 0),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, jobs := range taken.Jobs {
		got = append(got, idsOf(jobs))
	}
	want := [][]string{{"0", "1"}, {"2"}, nil, {"other"}, {"3", "4", "5"}, nil}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("they got %q, not %q", got, want)
	}
	if j := taken.Jobs[1][0]; j.LeaseUntil.Sub(j.Lease.Taken) != time.Hour {
		t.Errorf("the lease of an hour lasts %s", j.LeaseUntil.Sub(j.Lease.Taken))
	}
	for _, e := range f.q.End(f.ctx, store.Released(slices.Concat(taken.Jobs...))) {
		if e.Err != nil {
			t.Error(e.Err)
		}
	}
}
