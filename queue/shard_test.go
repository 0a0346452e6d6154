package queue

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Close does not hold the lock that a listener needs, which has just connected and sets the topics' limits.
func TestCloseDoesNotWaitForAListenerThatWaitsForIt(t *testing.T) {
	url, _ := startRedis(t)
	q := Open(Options{})
	if err := q.SetShards(t.Context(), []ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	s := q.Shards()[0]
	connected := make(chan struct{})
	s.resync = func(ctx context.Context, s *Shard) error {
		close(connected)
		<-s.ctx.Done() // Close has begun
		return q.syncTopics(ctx, s)
	}
	s.Wakeups(t.Context())
	<-connected
	closed := make(chan error, 1)
	go func() { closed <- q.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close does not return")
	}
}

func TestNothingStartsOnAClosedShard(t *testing.T) {
	f := newFixture(t)
	s := f.s
	if err := f.q.Close(); err != nil {
		t.Fatal(err)
	}
	s.markDown(0, errors.New("the test says so"))
	if s.probing.Load() {
		t.Error("a probe was started")
	}
}
