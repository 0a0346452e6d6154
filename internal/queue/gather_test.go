package queue

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSinglePushesOvertakeBatches: while batches wait and all calls carry parts of them, the next call is a single
// push's.
func TestSinglePushesOvertakeBatches(t *testing.T) {
	f := newFixture(t)
	b := f.s.nodes[0].pushes[Memory]
	var sent atomic.Int64 // jobs of batches that were answered
	step := make(chan struct{})
	b.calls = newGatherer(f.s, maxFlying, maxJobs, func(_ int, batch []*pushCall) {
		if batch[0].large() {
			<-step
		}
		jobs := 0
		for _, c := range batch {
			jobs += c.jobs()
			c.answer(make([]Result, c.jobs()), nil)
			if c.large() != batch[0].large() {
				t.Error("a call carries parts of a batch and others")
			}
		}
		if batch[0].large() {
			sent.Add(int64(jobs))
			if jobs > largeJobs {
				t.Errorf("one call carries %d jobs of batches", jobs)
			}
		}
	})
	waits := func(l *lane[*pushCall], jobs int) func() bool {
		return func() bool {
			b.calls.mu.Lock()
			defer b.calls.mu.Unlock()
			return l.jobs == jobs
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { b.push(f.ctx, batchOf(1000*i, 1000, 0)) })
	}
	eventually(t, "all calls carry batches", waits(&b.calls.large, 8000-maxFlying*largeJobs))
	for i := range 20 {
		var single sync.WaitGroup
		single.Go(func() { b.push(f.ctx, batchOf(8000+i, 1, 0)) })
		eventually(t, "a single push waits", waits(&b.calls.waiting, 1))
		step <- struct{}{}
		single.Wait()
	}
	if n := sent.Load(); n > 20*largeJobs {
		t.Errorf("%d jobs of batches were stored before 20 single pushes", n)
	}
	close(step)
	all.Wait()
	if sent.Load() != 8000 {
		t.Errorf("%d jobs of batches stored", sent.Load())
	}
}

// TestAClosedShardAnswersEveryCall: no caller waits for an answer that never arrives.
func TestAClosedShardAnswersEveryCall(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	pushes := f.s.nodes[0].pushes[Memory]
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := 0; ; n++ {
				if r := pushes.push(f.ctx, []Push{{Topic: "t", ID: fmt.Sprint(i, "-", n)}})[0]; r.Err != nil {
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := f.s.Take(f.ctx, 0, []TakeRequest{{Topics: []string{"t"}, Max: 1}}, nil); err != nil {
					return
				}
			}
		})
	}
	eventually(t, "jobs are taken", func() bool {
		m, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && m["t"].Running > 0
	})
	if err := f.s.close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	for range 2 * maxFlying {
		var un *UnavailableError
		if _, err := f.s.Take(f.ctx, 0, []TakeRequest{{Topics: []string{"t"}, Max: 1}}, nil); !errors.As(err, &un) {
			t.Errorf("take: %v", err)
		}
	}
}
