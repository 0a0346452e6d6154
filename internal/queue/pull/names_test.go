package pull_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/test/wait"
)

// names returns n names that begin with a prefix.
func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	return list
}

// TestTopicsThatNobodyWaitsForLeaveRedis, although each worker names others: Redis would grow with every poll.
func TestTopicsThatNobodyWaitsForLeaveRedis(t *testing.T) {
	f := newFixture(t, "stays")
	c := f.redis.Client()
	stays := f.worker(t.Context(), request(time.Hour, "stays"))
	for i := range 5 {
		all := names(fmt.Sprint("t", i, "x"), 400)
		ctx, cancel := context.WithCancel(t.Context())
		worker := f.worker(ctx, request(time.Hour, all...))
		wait.For(t, "the worker's topics are awaited", func() bool {
			return c.ZScore(t.Context(), "wk:{0}:awaited", all[399]).Err() == nil
		})
		cancel()
		<-worker
	}
	f.told("stays", 1)
	wait.For(t, "only one topic is awaited", func() bool { return f.redis.Do("ZCARD", "wk:{0}:awaited") == int64(1) })
	processes, _ := f.redis.Do("SMEMBERS", "wk:{0}:ww").([]any)
	if len(processes) != 1 || f.redis.Do("HLEN", fmt.Sprint("wk:{0}:ww:", processes[0])) != int64(1) {
		t.Errorf("processes %v have more than one topic", processes)
	}
	f.push("stays", "a", 0)
	if got := <-stays; len(got.jobs) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAWorkerOfAnotherProcessStillGetsJobs after the last one of a process has left.
func TestAWorkerOfAnotherProcessStillGetsJobs(t *testing.T) {
	f := newFixture(t, "t")
	other := &fixture{T: t, hub: pull.New(pull.Options{Queue: f.q}), q: f.q, redis: f.redis}
	f.run(other.hub.Run)
	ctx, cancel := context.WithCancel(t.Context())
	leaves, stays := f.worker(ctx, request(time.Hour, "t")), other.worker(t.Context(), request(wait.Limit, "t"))
	f.told("t", 2)
	cancel()
	<-leaves
	f.told("t", 1)
	f.push("t", "a", 0)
	if got := <-stays; len(got.jobs) != 1 {
		t.Errorf("%+v", got)
	}
}
