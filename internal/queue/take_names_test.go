package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// named returns n names that begin with a prefix.
func named(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	return list
}

// polls returns the calls of workers that wait for topics, in the batches in which they go to Redis.
func (f *fixture) polls(n int, topics func(i int) []string) (batches [][]*takeCall) {
	g := f.s.newTakes(0)
	g.free = nil // all slots are busy
	for i := range n {
		c := &takeCall{answered: newAnswered[Taken](), await: topics(i)}
		c.requests = []TakeRequest{{Topics: c.await, Max: 1, Order: Order(i % 2)}}
		g.add(c)
	}
	for batch := g.next(&g.waiting); len(batch) > 0; batch = g.next(&g.waiting) {
		batches = append(batches, batch)
	}
	return batches
}

// TestATakeIsBoundedByItsNames: neither many workers nor one that names many topics makes a call long.
func TestATakeIsBoundedByItsNames(t *testing.T) {
	f := newFixture(t)
	batches := f.polls(100, func(i int) []string { return named(fmt.Sprint("t", i, "x"), 50) })
	for _, batch := range batches {
		fl := flight{s: f.s, calls: batch}
		fl.encode("token")
		if n := len(fl.args); n > 3*maxNames {
			t.Fatalf("one call of %d workers has %d arguments; the limit of names is %d", len(batch), n, maxNames)
		}
	}
}

// TestWorkersThatNameTheSameShareACall, and the names are checked and stored once.
func TestWorkersThatNameTheSameShareACall(t *testing.T) {
	f := newFixture(t)
	same := named("t", 50)
	f.pullTopics(same...)
	batches := f.polls(100, func(int) []string { return same })
	if len(batches) > 5 {
		t.Errorf("%d calls for 100 workers that name the same 50 topics", len(batches))
	}
	cost := func(calls []*takeCall) int64 {
		before := f.calls()
		fl := flight{s: f.s, name: "test/0", calls: calls}
		fl.fly()
		return f.calls() - before
	}
	calls := slices.Concat(batches...)
	cost(calls[:1]) // loads the script
	alone := cost(calls[1:2])
	if together := cost(calls[2:32]); together > alone+100 {
		t.Errorf("%d commands for one worker, %d for 30", alone, together)
	}
}

// TestANameWithoutDueJobsIsCheap, whether it has delayed jobs or none: most names of a long poll have none.
func TestANameWithoutDueJobsIsCheap(t *testing.T) {
	f := newFixture(t)
	empty, delayed := named("e", 200), named("d", 200)
	f.pullTopics(slices.Concat(empty, delayed)...)
	for _, topic := range delayed {
		f.push(topic, "a", 1<<40)
	}
	for topics, most := range map[*[]string]int64{&empty: 2, &delayed: 6} {
		ask := []TakeRequest{{Topics: *topics, Max: 1}}
		take := func() {
			if taken, err := f.s.Take(f.ctx, 0, ask, *topics); err != nil || len(taken.More) > 0 {
				t.Fatalf("took %+v, %v", taken, err)
			}
		}
		take() // loads the script
		before := f.calls()
		take()
		if n := f.calls() - before; n > most*200+50 {
			t.Errorf("%d commands for 200 topics such as %s; want at most %d for each", n, (*topics)[0], most)
		}
	}
}

// TestACallerThatHasLeftAwaitsNothing: its topics would stay in Redis for a minute.
func TestACallerThatHasLeftAwaitsNothing(t *testing.T) {
	f := newFixture(t)
	c := &takeCall{answered: newAnswered[Taken](), await: []string{"t"}}
	c.left = true
	fl := flight{s: f.s, name: "test/0", calls: []*takeCall{c}}
	fl.fly()
	if n := f.s.client.Exists(f.ctx, prefix(0)+"awaited").Val(); n != 0 {
		t.Error("its topic is awaited")
	}
}

// TestWhoWaitsIsNotedInChunks: the topic of each worker, and those that nobody waits for any more, which leave Redis.
func TestWhoWaitsIsNotedInChunks(t *testing.T) {
	f := newFixture(t)
	topics := named("t", 2000)
	waiting, left := map[string]int{}, map[string]int{}
	for _, topic := range topics {
		waiting[topic], left[topic] = 3, 0
	}
	if err := f.s.client.ConfigSet(f.ctx, "slowlog-log-slower-than", "0").Err(); err != nil {
		t.Fatal(err)
	}
	note := func(counts map[string]int) {
		t.Helper()
		if err := f.s.NoteWorkers(f.ctx, 0, "p", counts); err != nil {
			t.Fatal(err)
		}
	}
	note(waiting)
	if w, err := f.q.Workers(f.ctx, "t7"); err != nil || w.Waiting != 3 {
		t.Errorf("%+v, %v", w, err)
	}
	for _, entry := range f.s.client.SlowLogGet(f.ctx, -1).Val() {
		last := entry.Args[len(entry.Args)-1]
		var more int
		if _, _ = fmt.Sscanf(last, "... (%d more arguments)", &more); more > 2*maxNames || len(last) > 100 {
			t.Fatalf("%s with %d arguments", entry.Args[0], more)
		}
	}
	if _, err := f.s.Take(f.ctx, 0, nil, topics[:500]); err != nil {
		t.Fatal(err)
	}
	wake := f.s.client.Subscribe(f.ctx, pullChannel(0))
	defer func() { _ = wake.Close() }()
	if _, err := wake.Receive(f.ctx); err != nil {
		t.Fatal(err)
	}
	note(left)
	if keys := f.s.client.Keys(f.ctx, prefix(0)+"ww:*").Val(); len(keys) > 0 {
		t.Errorf("keys of workers: %q", keys)
	}
	if n := f.s.client.ZCard(f.ctx, prefix(0)+"awaited").Val(); n != 0 {
		t.Errorf("%d topics are awaited by nobody", n)
	}
	var told []string // the workers of other processes, which may still wait
	for len(told) < 500 {
		m, err := wake.ReceiveMessage(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, strings.Fields(m.Payload)...)
	}
}

// TestAwaitedTopicsExpire, also when nobody waits for a topic any more who could remove them.
func TestAwaitedTopicsExpire(t *testing.T) {
	f := newFixture(t)
	if _, err := f.s.Take(f.ctx, 0, nil, []string{"t"}); err != nil {
		t.Fatal(err)
	}
	if ttl := f.s.client.PTTL(f.ctx, prefix(0)+"awaited").Val(); ttl <= 0 || ttl > awaitFor {
		t.Errorf("they stay for %s", ttl)
	}
}
