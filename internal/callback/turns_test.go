package callback

import (
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wakecall/wakecall/test/wait"
)

// judged counts evaluations of lower(body), which take half of the budget, and end one by one.
type judged struct {
	running, most atomic.Int64
	next          chan struct{}
}

func (j *judged) install(t *testing.T) {
	real := functions["lower"]
	t.Cleanup(func() { functions["lower"] = real })
	functions["lower"] = function{real.typ, func(m *meter, args []any) (any, error) {
		n := j.running.Add(1)
		defer j.running.Add(-1)
		for was := j.most.Load(); n > was && !j.most.CompareAndSwap(was, n); was = j.most.Load() {
		}
		<-j.next
		return args[0], m.take(budget / 2)
	}}
}

// begin starts calls of an endpoint, and returns when all wait for the evaluation of their retry_if.
func begin(t *testing.T, c *Caller, e *Endpoint, calls int, wg *sync.WaitGroup) {
	t.Helper()
	var judging atomic.Int64
	for range calls {
		wg.Go(func() {
			r := job()
			r.Judging = func() { judging.Add(1) }
			if o := c.Do(t.Context(), e, r); o.Class != Success {
				t.Errorf("outcome = %+v", o)
			}
		})
	}
	wait.For(t, "all calls are answered", func() bool { return judging.Load() == int64(calls) })
}

// TestACostlyRetryIfWaitsForItself: one evaluation of a topic runs at once, and those of costly expressions of all topics
// on at most half of the cores. Topics with other expressions, or none, wait for none of them.
func TestACostlyRetryIfWaitsForItself(t *testing.T) {
	j := &judged{next: make(chan struct{})}
	j.install(t)
	c, address := caller(t, Options{}), serve(t, func(http.ResponseWriter, *http.Request) {})
	topics := make([]*Endpoint, 4*runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range topics {
		topics[i] = endpoint(t, EndpointSpec{URL: address, RetryIf: `lower(body) != ""`})
		begin(t, c, topics[i], 4, &wg)
		if i == 0 {
			wait.For(t, "one of the first topic's is evaluated", func() bool { return j.running.Load() > 0 })
		}
		for range 4 {
			j.next <- struct{}{}
		}
		wg.Wait()
	}
	if n := j.most.Load(); n != 1 {
		t.Errorf("%d evaluations of one topic ran at once", n)
	}
	j.most.Store(0)
	for _, e := range topics {
		begin(t, c, e, 2, &wg)
	}
	wait.For(t, "costly expressions are evaluated", func() bool { return j.running.Load() > 0 })
	for _, retryIf := range []string{"", `status != 200`, `len(body) > 0`} {
		if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: address, RetryIf: retryIf}), job()); o.Class != Success {
			t.Errorf("with retry_if %q, while costly ones run: %+v", retryIf, o)
		}
	}
	for range 2 * len(topics) {
		j.next <- struct{}{}
	}
	wg.Wait()
	if n, half := j.most.Load(), max(1, int64(runtime.GOMAXPROCS(0)/2)); n > half {
		t.Errorf("%d evaluations of costly expressions ran at once; want at most %d", n, half)
	}
}
