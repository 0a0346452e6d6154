package timer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// fake is a shard with one due time, in a bubble of fake time.
type fake struct {
	mu    sync.Mutex
	due   time.Time
	moved []time.Time
	calls int
	err   error
	wake  chan queue.Wakeup
}

func (f *fake) Name() string                                { return "a" }
func (f *fake) Buckets() int                                { return 1 }
func (f *fake) Wakeups(context.Context) <-chan queue.Wakeup { return f.wake }

func (f *fake) Advance(context.Context, int) (queue.Advance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return queue.Advance{}, f.err
	}
	a := queue.Advance{Now: time.Now()}
	if !f.due.IsZero() && !f.due.After(a.Now) {
		f.moved = append(f.moved, a.Now)
		f.due = time.Time{}
		a.Moved = 1
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
		f := &fake{wake: make(chan queue.Wakeup)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- New(Options{Shards: func() []Shard { return []Shard{f} }}).Run(ctx) }()
		synctest.Wait()
		test(t, f)
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

func TestAnIdleTimerCallsOnceASecond(t *testing.T) {
	running(t, func(t *testing.T, f *fake) {
		pass(time.Minute)
		f.set(func() {
			if f.calls > 62 {
				t.Fatalf("%d calls in a minute", f.calls)
			}
		})
	})
}

func TestAJobIsMovedAtItsMomentWithoutBeingTold(t *testing.T) {
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
		f.wake <- queue.Wakeup{Bucket: 0, Kind: queue.WakeTimer}
		pass(10 * time.Millisecond)
		f.set(func() {
			if len(f.moved) != 1 || f.moved[0].Sub(due) > time.Millisecond {
				t.Fatalf("due at %v, moved at %v", due, f.moved)
			}
		})
	})
}

func TestAShardThatFailsIsAskedLessAndLess(t *testing.T) {
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
				t.Fatal("it did not go on when the shard came back")
			}
		})
	})
}
