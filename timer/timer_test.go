package timer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fake is a shard with one due time, in a bubble of fake time.
type fake struct {
	mu    sync.Mutex
	due   time.Time
	moved []time.Time
	calls int
	looks int
	err   error
	wake  chan store.Wakeup

	stuck bool          // Next works here and fails there
	more  int           // steps that leave work behind
	took  time.Duration // of a step
}

func (f *fake) Name() string { return "a" }

func (f *fake) Number() int { return 0 }

func (f *fake) Wakeups(context.Context) <-chan store.Wakeup { return f.wake }

func (f *fake) NextEvent(context.Context) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return f.due, f.err
}

// now is a wake-up for an event at once.
var now = store.Wakeup{Kind: store.WakeTimer, Event: time.UnixMicro(0), Sent: time.UnixMicro(0)}

func (f *fake) Advance(ctx context.Context) (store.Advance, error) {
	if f.took > 0 {
		select {
		case <-time.After(f.took):
		case <-ctx.Done():
			return store.Advance{}, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return store.Advance{}, f.err
	}
	a := store.Advance{Now: time.Now()}
	switch {
	case f.stuck:
		a.Next = a.Now
		return a, nil
	case f.more > 0:
		f.more--
		a.More = true
		return a, nil
	}
	if !f.due.IsZero() && !f.due.After(a.Now) {
		f.moved = append(f.moved, a.Now)
		f.due = time.Time{}
		a.Woken = 1
	}
	a.Next = f.due
	return a, nil
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func running(t *testing.T, test func(t *testing.T, f *fake)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wake: make(chan store.Wakeup)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- New(Options{Buckets: func() []Bucket { return []Bucket{f} }}).Run(ctx) }()
		synctest.Wait()
		test(t, f)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d) // of the bubble: waiting takes no real time
	synctest.Wait()
}

func TestAnIdleTimerPollsOnceASecond(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		pass(time.Minute)
		f.set(func() {
			if f.calls != 1 || f.looks > 61 || f.looks < 55 {
				t.Fatalf("%d steps and %d polls in a minute", f.calls, f.looks)
			}
		})
	})
}

func TestAJobIsMovedWithinASecondThoughNoWakeUpArrives(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		for n := 1; n <= 30; n++ {
			pass(1700 * time.Millisecond)
			f.set(func() { f.due = time.Now() })
			pass(time.Second)
			f.set(func() {
				if len(f.moved) != n {
					t.Fatalf("%d of %d jobs were moved a second after the last was due", len(f.moved), n)
				}
			})
		}
	})
}

func TestAJobIsMovedWhenDueWithoutAWakeUp(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		due := time.Now().Add(10*time.Second + 123*time.Millisecond)
		f.set(func() { f.due = due })
		pass(time.Minute)
		f.set(func() {
			if len(f.moved) != 1 || f.moved[0].Before(due) || f.moved[0].Sub(due) > time.Millisecond {
				t.Fatalf("due at %v, moved at %v", due, f.moved)
			}
		})
	})
}

func TestAWakeUpShortensTheSleep(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		pass(300 * time.Millisecond)
		due := time.Now().Add(5 * time.Millisecond)
		f.set(func() { f.due = due })
		f.wake <- now
		pass(10 * time.Millisecond)
		f.set(func() {
			if len(f.moved) != 1 || f.moved[0].Sub(due) > time.Millisecond {
				t.Fatalf("due at %v, moved at %v", due, f.moved)
			}
		})
	})
}

func TestAFailingShardIsPolledLessAndLess(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		f.set(func() { f.err = errors.New("down"); f.calls = 0 })
		pass(time.Minute)
		f.set(func() {
			if f.calls > 70 || f.calls < 15 {
				t.Fatalf("%d calls in a minute of failures", f.calls)
			}
			f.err = nil
			f.due = time.Now()
		})
		pass(4 * time.Second)
		f.set(func() {
			if len(f.moved) != 1 {
				t.Fatal("it did not continue when the shard was back")
			}
		})
	})
}

func TestManyIdleBucketsShareThePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shards []Bucket
		for range 10 {
			shards = append(shards, &fake{wake: make(chan store.Wakeup)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- New(Options{Buckets: func() []Bucket { return shards }}).Run(ctx) }()
		pass(time.Minute)
		n := 0
		for _, s := range shards {
			f := s.(*fake)
			f.set(func() { n += f.calls + f.looks })
		}
		if n > 5*60 {
			t.Errorf("%d calls in a minute", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestADueTimeThatRedisHasNotReachedIsNotPolledInALoop(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		f.set(func() { f.stuck = true; f.calls = 0 })
		f.wake <- now
		pass(100 * time.Millisecond)
		f.set(func() {
			if f.calls > 501 {
				t.Errorf("%d calls in 100 ms for a due time that Redis does not reach", f.calls)
			}
			f.stuck = false
		})
	})
}

func TestRemainingWorkContinuesAtOnce(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		pass(300 * time.Millisecond)
		f.set(func() { f.more = 50; f.calls = 0 })
		f.wake <- now
		synctest.Wait()
		f.set(func() {
			if f.calls != 51 {
				t.Errorf("%d calls for 50 steps that left work", f.calls)
			}
		})
	})
}

// TestABacklogLeavesTheShardToOthersForHalfOfTheTime, except for the first steps, so that usual numbers of jobs are
// moved at once.
func TestABacklogLeavesTheShardToOthersForHalfOfTheTime(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		const took = time.Millisecond
		f.set(func() { f.calls, f.took, f.more = 0, took, 1000 })
		f.wake <- now
		pass(inARow*took + took/2)
		f.set(func() {
			if f.calls != inARow {
				t.Errorf("%d steps at first", f.calls)
			}
		})
		pass(100 * took)
		f.set(func() {
			if n := f.calls - inARow; n < 49 || n > 51 {
				t.Errorf("then %d steps in the time of 100", n)
			}
		})
	})
}

func TestAReconnectPollsEveryBucket(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		pass(300 * time.Millisecond)
		f.set(func() { f.calls = 0 })
		f.wake <- store.Wakeup{Kind: store.WakeReconnect}
		synctest.Wait()
		f.set(func() {
			if f.calls != 1 {
				t.Errorf("%d calls after a reconnect", f.calls)
			}
		})
	})
}

func TestAShardThatHangsDoesNotDelayAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := &fake{wake: make(chan store.Wakeup), took: 30 * time.Second}
		works := &fake{wake: make(chan store.Wakeup)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- New(Options{Buckets: func() []Bucket { return []Bucket{hangs, works} }}).Run(ctx) }()
		pass(time.Second)
		due := time.Now().Add(50 * time.Millisecond)
		works.set(func() { works.due = due })
		works.wake <- now
		pass(time.Second)
		works.set(func() {
			if len(works.moved) != 1 || works.moved[0].Sub(due) > time.Millisecond {
				t.Errorf("due at %v, moved at %v", due, works.moved)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestShardsAreAddedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{wake: make(chan store.Wakeup)}, &fake{wake: make(chan store.Wakeup)}
		var mu sync.Mutex
		shards := []Bucket{a}
		changed := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			list := func() []Bucket { mu.Lock(); defer mu.Unlock(); return shards }
			done <- New(Options{Buckets: list, Changed: changed}).Run(ctx)
		}()
		pass(5 * time.Second)
		mu.Lock()
		shards = []Bucket{b}
		mu.Unlock()
		changed <- struct{}{}
		synctest.Wait()
		before := 0
		a.set(func() { before = a.calls + a.looks })
		pass(5 * time.Second)
		a.set(func() {
			if n := a.calls + a.looks; n != before {
				t.Errorf("a removed shard was polled %d times", n-before)
			}
		})
		b.set(func() {
			if n := b.calls + b.looks; n < 4 {
				t.Errorf("a new shard was polled %d times", n)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestMetricsHaveTheLatenessOfMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wake: make(chan store.Wakeup), due: time.Now().Add(500 * time.Millisecond)}
		r := prometheus.NewRegistry()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- New(Options{Buckets: func() []Bucket { return []Bucket{f} }, Registerer: r}).Run(ctx) }()
		pass(700 * time.Millisecond)
		f.set(func() { f.err = errors.New("down") })
		pass(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range families {
			m := x.GetMetric()[0]
			got[x.GetName()] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		moved, lag := got["wakecall_timer_woken_topics_total"], got["wakecall_timer_lag_seconds"]
		failures := got["wakecall_timer_failures_total"]
		if moved != 1 || lag != 1 || failures < 1 {
			t.Errorf("metrics = %v", got)
		}
	})
}
