package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// endpointEnv, when set, is the address at which this process is the endpoint.
const endpointEnv = "BENCH_ENDPOINT"

// The endpoint records calls of these paths. Others it only answers, as a bare server does.
const (
	countPath = "/count"
	latePath  = "/late" // its lateness counts
)

// sample is one callback.
type sample struct {
	at     int64 // its arrival, in Unix microseconds
	due    int64 // the due time in its header, in Unix milliseconds
	wanted int64 // the earliest time that its client asked for, from its id, in Unix milliseconds
	late   bool  // it came to latePath
}

// callLog has the callbacks since the last reset.
type callLog struct {
	accepted func() int64

	mu      sync.Mutex
	samples []sample
}

func serveEndpoint(addr string) {
	log := &callLog{}
	e := harness.NewEndpoint(addr, log.observe)
	log.accepted = e.Accepted
	e.Set("/reset", log.reset)
	e.Set("/seen", log.answer)
	if err := e.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
	os.Exit(0)
}

func (l *callLog) observe(c harness.Call) {
	if c.Status != 0 || (c.Path != countPath && c.Path != latePath) {
		return
	}
	_, id, _ := strings.Cut(c.ID, "-")
	wanted, _ := strconv.ParseInt(id, 10, 64) // not every id has a time
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = append(l.samples, sample{c.At.UnixMicro(), c.DueAt.UnixMilli(), wanted, c.Path == latePath})
}

func (l *callLog) reset(http.ResponseWriter, *http.Request, harness.Call) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = nil
	return http.StatusOK
}

// seen is what the endpoint says about the calls since the last reset.
type seen struct {
	Count         int
	Steady        float64 // calls a second between the first fifth and the last tenth
	Early         int
	P50, P99, Max float64 // lateness in ms of those that were due in the time asked for
	Connections   int64   // accepted since the start
}

func (l *callLog) answer(w http.ResponseWriter, r *http.Request, _ harness.Call) int {
	from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	to, _ := strconv.ParseInt(r.URL.Query().Get("to"), 10, 64)
	l.mu.Lock()
	s := seen{Count: len(l.samples)}
	if to > 0 {
		s = evaluate(slices.Clone(l.samples), from, to)
	}
	l.mu.Unlock()
	s.Connections = l.accepted()
	_ = json.NewEncoder(w).Encode(s) // an error means that the client has disconnected
	return http.StatusOK
}

func evaluate(samples []sample, from, to int64) seen {
	s := seen{Count: len(samples)}
	slices.SortFunc(samples, func(a, b sample) int { return cmp.Compare(a.at, b.at) })
	if n := len(samples); n > 10 {
		first, last := samples[n/5], samples[n*9/10]
		s.Steady = float64(n*9/10-n/5) / (time.Duration(last.at-first.at) * time.Microsecond).Seconds()
	}
	var late []float64
	for _, c := range samples {
		if c.at < c.due*1000 || c.at < c.wanted*1000 {
			s.Early++
		}
		if c.late && c.due >= from && c.due < to {
			late = append(late, float64(c.at-c.due*1000)/1000)
		}
	}
	slices.Sort(late)
	if n := len(late); n > 0 {
		s.P50, s.P99, s.Max = late[n/2], late[n*99/100], late[n-1]
	}
	return s
}

// endpoint is a process that receives callbacks.
type endpoint struct {
	b       *bench
	api     *harness.API
	process *process.Process
}

func (b *bench) startEndpoint() *endpoint {
	b.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(b))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), endpointEnv+"="+addr)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stdin.Close() })
	p := process.Start(b, process.Dir(b, "endpoint"), "endpoint", cmd)
	e := &endpoint{b, harness.NewAPI("http://"+addr, ""), p}
	harness.Eventually(b, harness.Patience, "the endpoint to answer", func() error {
		return e.api.Do(b.Context(), http.MethodGet, "/seen", nil).Err
	})
	return e
}

func (e *endpoint) url(path string) string { return e.api.Base + path }

func (e *endpoint) addr() string { return strings.TrimPrefix(e.api.Base, "http://") }

func (e *endpoint) reset() { e.api.MustDo(e.b, http.StatusOK, http.MethodPost, "/reset", nil) }

// seen returns what the endpoint has seen, with the lateness of calls that were due between two times.
func (e *endpoint) seen(from, to time.Time) seen {
	e.b.Helper()
	return e.ask(fmt.Sprintf("/seen?from=%d&to=%d", from.UnixMilli(), to.UnixMilli()))
}

func (e *endpoint) count() int { e.b.Helper(); return e.ask("/seen").Count }

func (e *endpoint) ask(path string) (s seen) {
	e.b.Helper()
	if err := e.api.MustDo(e.b, http.StatusOK, http.MethodGet, path, nil).JSON(&s); err != nil {
		e.b.Fatal(err)
	}
	return s
}

// await waits until the endpoint has received n callbacks.
func (e *endpoint) await(n int, limit time.Duration) {
	e.b.Helper()
	harness.Eventually(e.b, limit, fmt.Sprintf("%d callbacks", n), func() error {
		if got := e.count(); got < n {
			return fmt.Errorf("there were %d", got)
		}
		return nil
	})
}

func TestTheEndpointFindsWhatIsEarlyAndLate(t *testing.T) {
	var samples []sample
	for n := range int64(100) {
		samples = append(samples, sample{at: 1000_000 + n*1000, due: 1000, late: true})
	}
	samples = append(samples, sample{at: 999_999, due: 1000}, sample{at: 1000_000, due: 1000, wanted: 1001})
	got := evaluate(samples, 1000, 1001)
	want := seen{Count: 102, Steady: got.Steady, Early: 2, P50: 50, P99: 99, Max: 99}
	if got != want || got.Steady < 990 || got.Steady > 1010 {
		t.Errorf("evaluated %+v, want %+v", got, want)
	}
}
