package dispatcher

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
)

// TestAShardThatIsDownDelaysNoOther: calls of the other shard's jobs go on as before.
func TestAShardThatIsDownDelaysNoOther(t *testing.T) {
	for _, hangs := range []time.Duration{0, 2 * time.Second} { // killed, and stopped until the client times out
		for _, places := range []int{4, 16} {
			t.Run(fmt.Sprintf("%d places, an answer takes %s", places, hangs), func(t *testing.T) {
				testDown(t, places, hangs)
			})
		}
	}
}

func testDown(t *testing.T, places int, hangs time.Duration) {
	const every, length = 20 * time.Millisecond, 40 * time.Second
	up, down := newFake("up"), newFake("down")
	down.hangs = hangs
	play(t, setting{concurrency: places, shards: []*fake{up, down}}, func(t *testing.T, s *stage) {
		var mu sync.Mutex
		var late []time.Duration
		s.dial = 15 * time.Millisecond
		s.noted = func(r *callback.Request) {
			if s.shard(r.ID) == up {
				mu.Lock()
				defer mu.Unlock()
				late = append(late, time.Since(r.DueAt))
			}
		}
		load := func(d time.Duration) (calls int, p99 time.Duration) {
			mu.Lock()
			late = nil
			mu.Unlock()
			for end := time.Now().Add(d); time.Now().Before(end); pass(every) {
				up.push("a", 1)
				if !down.down { // with a backlog, so that it has as many places as it gets
					down.push("a", places)
				}
				for _, f := range []*fake{up, down} {
					f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(late)
			if len(late) == 0 {
				return 0, 0
			}
			return len(late), late[len(late)*99/100]
		}
		before, p99 := load(length)
		if p99 > 100*time.Millisecond {
			t.Errorf("before, p99 %s late", p99)
		}
		down.push("a", 4*places) // their calls are under way when it stops
		down.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(5 * time.Millisecond)
		down.set(func() { down.down = true })
		during, p99 := load(length)
		if 10*during < 9*before || p99 > 100*time.Millisecond {
			t.Errorf("%d calls, p99 %s late, while the other shard was down; %d calls before", during, p99, before)
		}
		down.set(func() { down.down = false })
		pass(30 * time.Second)
		if n := down.verbs()[store.Done]; n != down.pushed {
			t.Errorf("%d of %d jobs of the shard that was down are settled", n, down.pushed)
		}
		if n := s.d.places.available(); n != places {
			t.Errorf("%d of %d places are free at the end", n, places)
		}
	})
}

// TestAServerThatIsStoppedDelaysNoOther is TestAShardThatIsDownDelaysNoOther with servers of Redis, one of which is
// killed or stopped while calls of its jobs are under way.
func TestAServerThatIsStoppedDelaysNoOther(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		for _, places := range []int{4, 16} {
			t.Run(fmt.Sprint(signal, " with ", places, " places"), func(t *testing.T) {
				t.Parallel()
				testStopped(t, signal, places)
			})
		}
	}
}

func testStopped(t *testing.T, signal syscall.Signal, places int) {
	const jobs, every = 100, 20 * time.Millisecond
	up := redistest.Start(t, redistest.Options{Quick: true})
	down := redistest.Start(t, redistest.Options{Quick: true})
	i := startOn(t, []string{up.URL(), down.URL()}, 2*time.Second, func(o *Options) {
		o.Concurrency, o.ShutdownTimeout = places, time.Second
	})
	i.lossy = true
	answer, under := make(chan struct{}), make(chan struct{}, 100)
	for n := range places {
		i.hook(fmt.Sprint("b", n), func(http.ResponseWriter, *http.Request) { under <- struct{}{}; <-answer })
		i.push("slow", fmt.Sprint("b", n), 0)
	}
	for range places / 2 {
		<-under
	}
	down.Signal(signal)
	if signal == syscall.SIGSTOP {
		defer down.Resume()
	}
	close(answer)
	late := make(chan time.Duration, jobs)
	for n := range jobs {
		id := fmt.Sprint("a", n)
		answered := make(chan time.Time, 1) // the first push waits for the other shard
		i.hook(id, func(http.ResponseWriter, *http.Request) { late <- time.Since((<-answered).Add(every)) })
		i.push("t", id, every)
		answered <- time.Now()
		time.Sleep(every) // the rate of the load
	}
	var all []time.Duration
	for range jobs {
		select {
		case d := <-late:
			all = append(all, d)
		case <-time.After(2 * time.Second):
			t.Fatalf("%d of %d jobs of the other shard were called", len(all), jobs)
		}
	}
	slices.Sort(all)
	if p50 := all[jobs/2]; p50 > 100*time.Millisecond {
		t.Errorf("calls of the other shard's jobs: p50 %s, p99 %s late", p50, all[jobs*99/100])
	}
}
