package test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// moving is an old system that is still in use while producers and jobs move to Wakecall.
type moving struct {
	args    []string              // of `wakecall import`
	add     func(id string)       // push of a producer there; the job is due at once
	gateway func(id string) error // the same at the gateway
	work    func()                // one round of its timers and consumers
	drain   func(<-chan struct{}) // consumes Wakecall's jobs until the channel is closed
	left    func() int64          // number of jobs left there
}

// TestMovingWithoutAStop follows the guides: both systems are in use, an import follows the producers, which move one
// after the other, and a last import ends the move. Each job is done once, in one of the two systems.
func TestMovingWithoutAStop(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *consumed) (*installation, *moving){
		"beanstalk": movingBeanstalkd, "delayqueue": movingDelayQueue, "grape": movingGrape, "lmstfy": movingLmstfy,
		"phpdq": movingPHPDelayqueue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const waiting, producers, each = 300, 3, 30
			done := &consumed{times: map[string]int{}}
			i, old := begin(t, done)
			for n := range waiting {
				old.add(fmt.Sprint("w", n))
			}
			args := append([]string{"import", name}, old.args...)
			if code, out := i.Run(append(args, "--dry-run")...); code != 0 || !strings.Contains(out, "300") {
				t.Fatalf("the dry run exits %d: %s", code, out)
			}
			follow := exec.Command(harness.Binary(t), append(args, "--follow")...)
			follow.Dir, follow.Env = i.Dir, append(os.Environ(), "WAKECALL_DATA_DIR="+i.Data)
			says := &strings.Builder{}
			follow.Stderr = says
			must(t, follow.Start())
			defer func() { _ = follow.Process.Kill() }()
			var consumers, oldConsumers, producing sync.WaitGroup
			ended, oldEnded := make(chan struct{}), make(chan struct{})
			consumers.Go(func() { old.drain(ended) })
			oldConsumers.Go(func() {
				for tick := time.Tick(5 * time.Millisecond); ; <-tick {
					select {
					case <-oldEnded:
						return
					default:
						old.work()
					}
				}
			})
			for p := range producers {
				producing.Go(func() {
					for n := range each * (producers + 1) {
						id := fmt.Sprint(p, "-", n)
						if n < each*(p+1) {
							old.add(id)
							time.Sleep(2 * time.Millisecond) // the rate of a producer
						} else if err := old.gateway(id); err != nil {
							t.Errorf("%s: %v", id, err)
						}
					}
				})
			}
			producing.Wait()
			must(t, follow.Process.Signal(syscall.SIGINT))
			if err := follow.Wait(); err != nil {
				t.Errorf("the import that follows: %v: %s", err, says)
			}
			close(oldEnded)
			oldConsumers.Wait()
			if code, out := i.Run(args...); code != 0 || old.left() != 0 {
				t.Errorf("the last import exits %d, and the old system has %d jobs: %s", code, old.left(), out)
			}
			const all = waiting + producers*each*(producers+1)
			harness.Eventually(t, soon, "all jobs to be done",
				func() error { return harness.Equal("done", done.count(), all) })
			close(ended)
			consumers.Wait()
			t.Logf("%d of %d jobs were done by the old system", done.old, all)
			for id, n := range done.times {
				if n != 1 {
					t.Errorf("%s was done %d times", id, n)
				}
			}
		})
	}
}

// movingPull is an old system with consumers. In both systems, the bodies of jobs are their numbers.
func movingPull(
	w *harness.Wakecall, old *oldSystem, done *consumed, add func(id string), gateway func(id string) error,
) (*installation, *moving) {
	i := &installation{Wakecall: w}
	old.number = func(_, body string) string { return body }
	return i, &moving{
		args: old.args, left: old.left, add: add, gateway: gateway,
		work:  func() { done.addOld(old.consume()) },
		drain: func(stop <-chan struct{}) { done.drain(i, old, stop) },
	}
}
