package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

func closes(t *testing.T, q *queue.Queue) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- q.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(wait.Limit):
		t.Fatal("Close does not return")
	}
}

// Close must not hold the lock that a listener needs when it has just connected and sets the topics' limits.
func TestCloseDoesNotWaitForAListenerThatWaitsForIt(t *testing.T) {
	url, _ := startRedis(t)
	connected, begun := make(chan struct{}), make(chan struct{})
	q := open(store.Options{Announced: func() {
		close(connected)
		<-begun
	}})
	all := slices.Values([]store.TopicConf{{Name: "t", TTR: time.Second, MaxAttempts: 1}})
	if err := q.SetTopics(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	s := q.Shards.All()[0]
	<-connected
	go func() {
		<-s.CtxForTest().Done() // Close has begun
		close(begun)
	}()
	closes(t, q)
}

func TestNothingStartsOnAClosedShard(t *testing.T) {
	f := newFixture(t)
	s := f.s
	if err := f.q.Close(); err != nil {
		t.Fatal(err)
	}
	s.Buckets()[0].MarkDownForTest(errors.New("the test says so"))
	if s.Buckets()[0].ProbingForTest().Load() {
		t.Error("a probe was started")
	}
}

// TestACloseDoesNotWaitForAServerThatHangs, whatever the time limit of a command is.
func TestACloseDoesNotWaitForAServerThatHangs(t *testing.T) {
	url, server := startRedis(t)
	server.Pause()
	asked := make(chan struct{}, 100)
	pass := func([]byte) bool { asked <- struct{}{}; return true }
	q := open(store.Options{Timeout: time.Hour})
	err := q.Shards.Set([]store.ShardConfig{{
		Name: "a", State: "active",
		URL: proxied(t, url, func() (request, answer func([]byte) bool) { return pass, pass }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	q.Shards.Buckets()[0].MarkDownForTest(errors.New("the test says so"))
	<-asked // a probe has begun
	closes(t, q)
}

// TestReadyNoticesAServerThatHasGone although nobody uses it.
func TestReadyNoticesAServerThatHasGone(t *testing.T) {
	url, server := startRedis(t)
	f := fixtureOn(t, url, store.Options{})
	f.push("t", "x", time.Hour)
	if err := f.q.Ready(); err != nil {
		t.Fatal(err)
	}
	server.Kill9()
	eventually(t, "Ready to fail", func() bool { return f.q.Ready() != nil })
}

// TestReadyWithAServerThatHangs: the other shard has its own time to answer.
func TestReadyWithAServerThatHangs(t *testing.T) {
	hangs, server := startRedis(t)
	answers, _ := startRedis(t)
	q := open(store.Options{Timeout: 3 * time.Second})
	t.Cleanup(func() { closes(t, q) })
	err := q.Shards.Set([]store.ShardConfig{
		{Name: "a", URL: hangs, State: "active"}, {Name: "b", URL: answers, State: "active"},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Pause()
	if err := q.Ready(); err != nil {
		t.Error(err)
	}
}

// TestAClosedShardAnswersEveryCall: no caller waits for an answer that never arrives.
func TestAClosedShardAnswersEveryCall(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := 0; ; n++ {
				push := []store.Push{{Topic: "t", ID: fmt.Sprint(i, "-", n)}}
				if r := f.b.Push(f.ctx, store.Memory, push)[0]; r.Err != nil {
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := f.b.Take(f.ctx, []store.TakeRequest{{Topics: []string{"t"}, Max: 1}}, nil); err != nil {
					return
				}
			}
		})
	}
	eventually(t, "jobs are taken", func() bool {
		m, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && m["t"].Running > 0
	})
	if err := f.s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	var un *store.UnavailableError
	if _, err := f.b.Take(f.ctx, []store.TakeRequest{{Topics: []string{"t"}, Max: 1}}, nil); !errors.As(err, &un) {
		t.Errorf("take: %v", err)
	}
}
