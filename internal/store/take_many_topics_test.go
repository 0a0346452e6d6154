package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// named returns n names that begin with a prefix.
func named(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	return list
}

// TestWorkersThatNameTheSameCostLittleMore: the topics of a call are checked and stored once.
func TestWorkersThatNameTheSameCostLittleMore(t *testing.T) {
	f := newFixture(t)
	same := named("t", 50)
	f.pullTopics(same...)
	cost := func(workers int) int64 {
		requests := make([]store.TakeRequest, workers)
		for i := range requests {
			requests[i] = store.TakeRequest{Topics: same, Max: 1, Order: store.Order(i % 2)}
		}
		before := f.calls()
		if _, err := f.b.Take(f.ctx, requests, same); err != nil {
			t.Fatal(err)
		}
		return f.calls() - before
	}
	cost(1) // loads the script
	alone := cost(1)
	if together := cost(30); together > alone+100 {
		t.Errorf("%d commands for one worker, %d for 30", alone, together)
	}
}

// TestATopicWithoutDueJobsIsCheap, whether it has delayed jobs or none: most topics of a long poll have none.
func TestATopicWithoutDueJobsIsCheap(t *testing.T) {
	f := newFixture(t)
	empty, delayed := named("e", 200), named("d", 200)
	f.pullTopics(slices.Concat(empty, delayed)...)
	for _, topic := range delayed {
		f.push(topic, "a", 1<<40)
	}
	for topics, most := range map[*[]string]int64{&empty: 2, &delayed: 6} {
		ask := []store.TakeRequest{{Topics: *topics, Max: 1}}
		take := func() {
			if taken, err := f.b.Take(f.ctx, ask, *topics); err != nil || len(taken.More) > 0 {
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
	ctx, cancel := context.WithCancel(f.ctx)
	left := make(chan struct{})
	leaves := store.TakeRequest{Topics: []string{"t"}, Max: 1, Alive: func() bool {
		cancel()
		<-left
		return true
	}}
	if _, err := f.b.Take(ctx, []store.TakeRequest{leaves}, []string{"t"}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(left)
	if _, err := f.b.Take(f.ctx, []store.TakeRequest{{Topics: []string{"t"}, Max: 1}}, nil); err != nil { // the next call
		t.Fatal(err)
	}
	if n := f.s.Redis().Exists(f.ctx, store.Prefix(0)+"awaited").Val(); n != 0 {
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
	if err := f.s.Redis().ConfigSet(f.ctx, "slowlog-log-slower-than", "0").Err(); err != nil {
		t.Fatal(err)
	}
	note := func(counts map[string]int) {
		t.Helper()
		if err := queue.NoteWorkers(f.ctx, f.b, "p", counts); err != nil {
			t.Fatal(err)
		}
	}
	note(waiting)
	if w, err := queue.WorkersOf(f.ctx, f.q.Shards, "t7"); err != nil || w.Waiting != 3 {
		t.Errorf("%+v, %v", w, err)
	}
	for _, entry := range f.s.Redis().SlowLogGet(f.ctx, -1).Val() {
		last := entry.Args[len(entry.Args)-1]
		var more int
		if _, _ = fmt.Sscanf(last, "... (%d more arguments)", &more); more > 2*store.MaxTopics || len(last) > 100 {
			t.Fatalf("%s with %d arguments", entry.Args[0], more)
		}
	}
	if _, err := f.b.Take(f.ctx, nil, topics[:500]); err != nil {
		t.Fatal(err)
	}
	wake := f.s.Redis().Subscribe(f.ctx, f.b.Key("pull"))
	defer func() { _ = wake.Close() }()
	if _, err := wake.Receive(f.ctx); err != nil {
		t.Fatal(err)
	}
	note(left)
	if keys := f.s.Redis().Keys(f.ctx, store.Prefix(0)+"ww:*").Val(); len(keys) > 0 {
		t.Errorf("keys of workers: %q", keys)
	}
	if n := f.s.Redis().ZCard(f.ctx, store.Prefix(0)+"awaited").Val(); n != 0 {
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
	if _, err := f.b.Take(f.ctx, nil, []string{"t"}); err != nil {
		t.Fatal(err)
	}
	if ttl := f.s.Redis().PTTL(f.ctx, store.Prefix(0)+"awaited").Val(); ttl <= 0 || ttl > store.AwaitFor {
		t.Errorf("they stay for %s", ttl)
	}
}
