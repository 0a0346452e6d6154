package pull_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// TestAShardThatHangsHoldsUpNoWorker: workers get the jobs of the shard that answers in time, and those of the other
// once it goes on, none with an attempt that it did not have.
func TestAShardThatHangsHoldsUpNoWorker(t *testing.T) {
	t.Parallel()
	f := newFixtureWithin(t, 2*time.Second, "t")
	b := f.addShard()
	if err := queuetest.Adopt(t.Context(), f.q.Shards.All()[1]); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the new shard knows the topic", func() bool { return b.Do("HEXISTS", "wk:{0}:c:t", "pull") == int64(1) })
	shardOf := map[string]string{}
	for i := range 400 {
		id := fmt.Sprint(i)
		delay := time.Second + time.Duration(i)*10*time.Millisecond
		r := f.q.Push(t.Context(), store.Push{Topic: "t", ID: id, Delay: delay, Priority: store.Normal})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		shardOf[id] = r.Job.Shard
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	got, late, reserves := map[string]bool{}, []time.Duration{}, 0
	var workers sync.WaitGroup
	for n := range 8 {
		workers.Go(func() {
			for ctx.Err() == nil {
				jobs, err := f.hub.Take(ctx, request(time.Duration(n)*500/7*time.Millisecond, "t"))
				mu.Lock()
				if reserves++; err == nil {
					for _, j := range jobs {
						if got[j.ID] = true; j.Lease.Attempt != 1 {
							t.Errorf("%s is at attempt %d", j.ID, j.Lease.Attempt)
						}
						if shardOf[j.ID] == "a" {
							late = append(late, time.Since(j.DueAt))
						}
					}
				}
				mu.Unlock()
			}
		})
	}
	count := func(shard string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for id := range got {
			if shardOf[id] == shard {
				n++
			}
		}
		return n
	}
	wait.For(t, "workers get jobs of both shards", func() bool { return count("a") > 0 && count("b") > 0 })
	b.Pause()
	total := 0
	for _, shard := range shardOf {
		if shard == "a" {
			total++
		}
	}
	wait.For(t, "all jobs of the shard that answers are taken", func() bool { return count("a") == total })
	b.Resume()
	stop()
	workers.Wait()
	slices.Sort(late)
	p50, last := late[len(late)/2], late[len(late)-1]
	t.Logf("%d reserves; late by p50 %v, at most %v", reserves, p50, last)
	if p50 > 200*time.Millisecond || last > 2*time.Second {
		t.Errorf("jobs of the shard that answers are late by p50 %v, at most %v", p50, last)
	}
	for id := range shardOf {
		if got[id] {
			continue
		}
		wait.For(t, "job "+id+" is ready again", func() bool {
			j, err := f.q.Get(t.Context(), "t", id)
			if err == nil && j.Attempts > 0 {
				t.Fatalf("job %s counts %d attempts", id, j.Attempts)
			}
			return err == nil && j.State == store.Ready
		})
	}
}
