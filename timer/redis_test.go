package timer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// counting is a real shard that counts what its timer does.
type counting struct {
	*store.Bucket
	mu    sync.Mutex
	woken int
	calls int
}

func (c *counting) Advance(ctx context.Context) (store.Advance, error) {
	a, err := c.Bucket.Advance(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.woken += a.Woken
	return a, err
}

// Wakeups returns once it listens.
func (c *counting) Wakeups(ctx context.Context) <-chan store.Wakeup {
	wake := c.Bucket.Wakeups(ctx)
	<-wake // WakeReconnect
	return wake
}

func (c *counting) NextEvent(ctx context.Context) (time.Time, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	return c.Bucket.NextEvent(ctx)
}

func (c *counting) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.woken
}

func (c *counting) steps() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func startQueue(t *testing.T) *queue.Queue {
	t.Helper()
	r := redistest.Start(t, redistest.Options{Quick: true})
	q := queue.Open(store.Options{Timeout: wait.Limit})
	t.Cleanup(func() { _ = q.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: r.URL(), State: "active"}}
	if err := q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shard is adopted", func() bool { return queuetest.Adopt(t.Context(), q.Shards.All()[0]) == nil })
	eventually(t, "Redis answers", func() bool {
		_, err := q.Shards.Buckets()[0].Advance(t.Context())
		return err == nil
	})
	return q
}

var eventually = wait.For

func TestTimersSideBySideWakeEachTopicOnce(t *testing.T) {
	q := startQueue(t)
	one, two := &counting{Bucket: q.Shards.Buckets()[0]}, &counting{Bucket: q.Shards.Buckets()[0]}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, c := range []*counting{one, two} {
		wg.Go(func() { _ = New(Options{Exact: true, Buckets: func() []Bucket { return []Bucket{c} }}).Run(ctx) })
	}
	const jobs = 3000
	batch := make([]store.Push, jobs)
	for i := range batch {
		batch[i] = store.Push{
			Topic: fmt.Sprint("t", i%7), ID: fmt.Sprint(i), Body: []byte("1"),
			Delay: time.Duration(500+i%1000) * time.Millisecond,
		}
	}
	for _, r := range q.PushBatch(t.Context(), batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	topics := []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6"}
	eventually(t, "everything is ready", func() bool {
		stats, err := q.Stats(t.Context(), topics)
		ready := int64(0)
		for _, s := range stats {
			ready += s.Ready
		}
		return err == nil && ready == jobs && one.total()+two.total() >= len(topics)
	})
	cancel()
	wg.Wait()
	if n := one.total() + two.total(); n != len(topics) { // nobody took a job, so no topic needs a second turn
		t.Errorf("%d turns for %d topics", n, len(topics))
	}
}

func TestAnEarlierJobWakesItsTopicWhileTheTimerSleeps(t *testing.T) {
	q := startQueue(t)
	c := &counting{Bucket: q.Shards.Buckets()[0]}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		// No poll helps.
		_ = New(Options{Exact: true, Buckets: func() []Bucket { return []Bucket{c} }, Poll: time.Hour}).Run(ctx)
	})
	defer wg.Wait()
	defer cancel()
	eventually(t, "the timer listens", func() bool { return c.steps() == 1 })
	for n, delay := range []time.Duration{time.Hour, 50 * time.Millisecond} {
		r := q.Push(t.Context(), store.Push{Topic: "t", ID: fmt.Sprint(n), Body: []byte("1"), Delay: delay})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	eventually(t, "the topic of the earlier job is woken", func() bool { return c.total() == 1 })
	if n := c.steps(); n != 2 { // the wake-ups say when the jobs are due
		t.Errorf("the timer made %d steps", n)
	}
}
