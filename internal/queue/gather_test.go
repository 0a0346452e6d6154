package queue

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSinglePushesOvertakeBatches: while four batches of 1,000 wait, a single push is sent at once, in a call of its own.
func TestSinglePushesOvertakeBatches(t *testing.T) {
	f := newFixture(t)
	b := f.s.nodes[0].pushes[Memory]
	var flying, most, sent atomic.Int64 // of batches: calls at once, their maximum, and jobs answered
	step := make(chan struct{})
	b.calls = newGatherer(f.s, maxFlying, maxJobs, func(_ int, batch []*pushCall) {
		if batch[0].large() {
			most.Store(max(most.Load(), flying.Add(1)))
			defer flying.Add(-1)
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
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { b.push(f.ctx, batchOf(1000*i, 1000, 0)) })
	}
	eventually(t, "the batches wait", func() bool {
		b.calls.mu.Lock()
		defer b.calls.mu.Unlock()
		return b.calls.large.jobs == 4000-largeJobs
	})
	for i := range 40 {
		if i%2 == 1 {
			step <- struct{}{}
		}
		b.push(f.ctx, batchOf(4000+i, 1, 0))
	}
	if n := sent.Load(); n > 20*largeJobs {
		t.Errorf("%d jobs of batches were stored before 40 single pushes", n)
	}
	close(step)
	wg.Wait()
	if sent.Load() != 4000 || most.Load() != 1 {
		t.Errorf("%d jobs of batches stored, in up to %d calls at once", sent.Load(), most.Load())
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
