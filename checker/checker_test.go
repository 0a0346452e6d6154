package checker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/queue"
)

// fake is a shard whose answers a test sets.
type fake struct {
	mu     sync.Mutex
	err    error
	took   time.Duration
	off    time.Duration
	health queue.ShardHealth
	pings  int
	infos  int
}

func (f *fake) Name() string { return "a" }

func (f *fake) Ping(context.Context) (time.Time, time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pings++
	return time.Now().Add(f.off), f.took, f.err
}

func (f *fake) Health(context.Context) queue.ShardHealth {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.infos++
	f.health.Up = true
	return f.health
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// watching runs a checker in a bubble of fake time.
func watching(t *testing.T, test func(t *testing.T, c *Checker, f *fake, told *[]Finding)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: time.Millisecond, health: queue.ShardHealth{RunID: "1"}}
		told := &[]Finding{}
		c := New(Options{
			Shards: func() []Shard { return []Shard{f} }, Notify: func(x Finding) { *told = append(*told, x) }, Registerer: prometheus.NewRegistry(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		test(t, c, f, told)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d) // of the bubble: it takes no time
	synctest.Wait()
}

func TestThreeFailuresInARowAreDownAndOneAnswerEndsIt(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, told *[]Finding) {
		f.set(func() { f.err = errors.New("no answer") })
		pass(2500 * time.Millisecond)
		if len(c.Findings()) != 0 {
			t.Fatalf("after two failures: %+v", c.Findings())
		}
		pass(time.Second)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != Down || got[0].Detail != "no answer" {
			t.Fatalf("after three failures: %+v", got)
		}
		pass(time.Minute)
		f.set(func() { f.err = nil })
		pass(time.Second)
		if len(c.Findings()) != 0 || len(*told) != 2 || (*told)[1].Ended.IsZero() {
			t.Fatalf("after it answered: %+v, told %+v", c.Findings(), *told)
		}
	})
}

func TestASlowMinuteIsFound(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, _ *[]Finding) {
		f.set(func() { f.took = 150 * time.Millisecond })
		pass(time.Minute)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != Slow {
			t.Fatalf("findings = %+v", got)
		}
	})
}

func TestClocksAndMemoryAndRestartsAreJudged(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, told *[]Finding) {
		f.set(func() { f.off = 5 * time.Second })
		pass(time.Second)
		kinds := map[Kind]bool{}
		for _, x := range c.Findings() {
			kinds[x.Kind] = true
		}
		if !kinds[Clock] || !kinds[Stepped] {
			t.Fatalf("a clock that jumped by 5 s: %v", kinds)
		}
		f.set(func() {
			f.off = 0
			f.health = queue.ShardHealth{RunID: "2", Memory: 90, MaxMemory: 100, Policy: "allkeys-lru", WriteError: "disk full", LinkDown: true}
		})
		pass(11 * time.Second)
		kinds = map[Kind]bool{}
		for _, x := range c.Findings() {
			kinds[x.Kind] = true
		}
		for _, k := range []Kind{Memory, Eviction, WriteError, LinkDown, Restarted} {
			if !kinds[k] {
				t.Errorf("%s was not found: %v", k, kinds)
			}
		}
		if kinds[Clock] || kinds[Stepped] {
			t.Errorf("the clock's findings did not end: %v", kinds)
		}
		_ = told
	})
}

func TestAnHourOfWatchingIsCheap(t *testing.T) {
	watching(t, func(t *testing.T, _ *Checker, f *fake, _ *[]Finding) {
		pass(time.Hour)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.pings > 3602 || f.infos > 362 {
			t.Fatalf("%d pings and %d looks in an hour", f.pings, f.infos)
		}
	})
}
