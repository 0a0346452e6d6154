package dispatcher

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
)

// TestCallsGoOnWhileRedisIsSlow: a call that starts too long after its reservation could follow a deletion, so the
// start window must follow what Redis takes. The fake checks each call.
func TestCallsGoOnWhileRedisIsSlow(t *testing.T) {
	for _, slow := range []time.Duration{260 * time.Millisecond, time.Second, 2 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			const jobs = 50
			f := newFake("a")
			f.took, f.slow, f.requeue = slow, slow, true
			f.push("a", jobs)
			play(t, setting{concurrency: 16, ttr: 2 * time.Second, shards: []*fake{f}}, func(t *testing.T, s *stage) {
				pass(30 * slow)
				if n, most, _ := s.calls(); n != jobs || most != 1 || f.verbs()[store.Done] != jobs {
					t.Errorf("%d jobs were called, up to %d times, and settled: %v", n, most, f.verbs())
				}
				f.set(func() {
					if n := len(f.extended); n > jobs/5 {
						t.Errorf("%d of %d leases were extended one by one", n, jobs)
					}
				})
			})
		})
	}
}

// TestCallsGoOnThoughEveryAnswerTakesLong between the processes and a real Redis: late, never early, never twice.
func TestCallsGoOnThoughEveryAnswerTakesLong(t *testing.T) {
	for _, answer := range []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second} {
		t.Run(answer.String(), func(t *testing.T) {
			t.Parallel()
			redis := harness.StartRedis(t, harness.RedisOptions{})
			proxy := harness.StartProxy(t, redis.Addr())
			i := startOn(t, []string{"redis://" + proxy.Addr()}, 5*time.Second)
			left := func() any { return redis.Do("HLEN", "wk:{0}:j:t") }
			const jobs = 10
			var early atomic.Int32
			due := time.Now().Add(time.Second)
			for n := range jobs {
				id := fmt.Sprint(n)
				i.hook(id, func(http.ResponseWriter, *http.Request) {
					if time.Now().Before(due) {
						early.Add(1)
					}
				})
				i.push("t", id, time.Until(due))
			}
			proxy.Set(harness.Trouble{Delay: answer / 2})
			eventually(t, "the jobs are delivered", func() bool { return left() == int64(0) })
			for n := range jobs {
				if called := i.called(fmt.Sprint(n)); called != 1 || early.Load() > 0 {
					t.Errorf("job %d was called %d times, %d jobs early", n, called, early.Load())
				}
			}
			proxy.Heal() // for the shutdown
		})
	}
}

// TestOneLateAnswerDoesNotMakeDeletionsWait: its jobs are released, and reserved again.
func TestOneLateAnswerDoesNotMakeDeletionsWait(t *testing.T) {
	f := newFake("a")
	f.took, f.requeue = time.Second, true
	f.push("a", 5)
	play(t, setting{concurrency: 16, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		f.set(func() { f.took = 0 })
		pass(3 * time.Second)
		if n, most, _ := s.calls(); n != 5 || most != 1 {
			t.Errorf("%d jobs were called, up to %d times", n, most)
		}
		f.set(func() {
			if f.window != store.StartWindow {
				t.Errorf("deletions wait for %s", f.window)
			}
		})
	})
}

// TestALeaseThatIsShorterThanTheTTRIsExtended: Redis may not have got the topic's TTR yet. With the registry's alone a
// second call would begin while the first one goes on. The fake checks each call.
func TestALeaseThatIsShorterThanTheTTRIsExtended(t *testing.T) {
	for _, ttr := range []time.Duration{8 * time.Second, time.Minute} {
		t.Run(fmt.Sprint(ttr), func(t *testing.T) {
			f := newFake("a")
			play(t, setting{concurrency: 4, hang: true, ttr: ttr, shards: []*fake{f}}, func(t *testing.T, s *stage) {
				f.set(func() { f.ttr = time.Second })
				f.push("a", 2)
				pass(ttr - time.Second)
				if n, _, _ := s.calls(); n != 2 {
					t.Errorf("%d of 2 jobs were called", n)
				}
				close(s.answer)
			})
		})
	}
}

// TestAWiderStartWindowEndsWithItsServer: one that has lost writes may have lost the window, so deletions no longer wait
// for it. The fake checks each call.
func TestAWiderStartWindowEndsWithItsServer(t *testing.T) {
	const slow = 400 * time.Millisecond
	f := newFake("a")
	f.took, f.slow, f.requeue = slow, slow, true
	f.push("a", 5)
	play(t, setting{concurrency: 16, ttr: 2 * time.Second, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(10 * time.Second)
		f.set(func() {
			if f.window == store.StartWindow {
				t.Error("the window is not wider")
			}
			f.window = store.StartWindow
		})
		f.wake <- store.Wakeup{Kind: store.WakeReconnect}
		f.push("a", 5)
		pass(20 * time.Second)
		if n, most, _ := s.calls(); n != 10 || most != 1 {
			t.Errorf("%d jobs were called, up to %d times", n, most)
		}
	})
}
