package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// topic is the topic of most experiments.
const topic = "bench"

// M is a JSON object.
type M = harness.M

// installation is a fresh Wakecall with its managed redis-server, and an endpoint.
type installation struct {
	*harness.Wakecall
	b        *bench
	api      *harness.API
	endpoint *endpoint
	redis    *redis.Client
	jobs     atomic.Int64 // numbers of the jobs that were pushed
}

func (b *bench) start(env map[string]string) *installation {
	b.Helper()
	w := harness.StartWakecall(b, harness.Options{Env: env})
	in := &installation{Wakecall: w, b: b, endpoint: b.startEndpoint()}
	in.connect()
	return in
}

func (in *installation) connect() {
	in.api = in.Quick()
	in.redis = redis.NewClient(&redis.Options{Network: "unix", Addr: in.socket(), MaxRetries: -1})
	in.b.Cleanup(func() { _ = in.redis.Close() })
}

func (in *installation) socket() string { return filepath.Join(in.Data, "redis", "redis.sock") }

func (in *installation) addr() string { return strings.TrimPrefix(in.Base, "http://") }

// put registers a topic whose callbacks the endpoint receives at a path.
func (in *installation) put(name, path, state string) {
	in.b.Helper()
	in.api.MustPutTopic(in.b, name, M{"callback_url": in.endpoint.url(path), "state": state})
}

// cpu returns the processor time that all processes of the installation have used.
func (in *installation) cpu() (total time.Duration) {
	in.b.Helper()
	for _, p := range process.Below(in.Dir) {
		used, err := process.CPU(p.PID)
		if err != nil {
			in.b.Fatal(err)
		}
		total += used
	}
	return total
}

// cpuOfRoles returns the processor time of the processes that make callbacks, and of the endpoint.
func (in *installation) cpuOfRoles() map[string]time.Duration {
	in.b.Helper()
	total := map[string]time.Duration{}
	for role, pids := range map[string][]int{
		"dispatcher": in.Role("dispatcher"), "redis": in.Role("redis"), "timer": in.Role("timer"),
		"endpoint (not in the sum)": {in.endpoint.process.PID()},
	} {
		for _, pid := range pids {
			used, err := process.CPU(pid)
			if err != nil {
				in.b.Fatal(err)
			}
			total[role] += used
		}
	}
	return total
}

// redisCPU returns the processor time that Redis's one thread for commands has used.
func (in *installation) redisCPU() time.Duration {
	in.b.Helper()
	server, err := procfs.NewProc(in.WaitRole("redis", 1)[0])
	used, usedErr := server.Schedstat() // of its first thread
	if err := errors.Join(err, usedErr); err != nil {
		in.b.Fatal(err)
	}
	return time.Duration(used.RunningNanoseconds)
}

// largest returns the memory of the largest of Wakecall's own processes, in MiB.
func (in *installation) largest() (mib float64) {
	for _, p := range process.Below(in.Dir) {
		if stat, err := p.Stat(); err == nil && !strings.Contains(p.Title, "redis-server") {
			mib = max(mib, float64(stat.ResidentMemory())/(1<<20))
		}
	}
	return mib
}

// info returns a number in Redis's INFO.
func (in *installation) info(section, field string) float64 {
	in.b.Helper()
	value := in.redis.InfoMap(in.b.Context(), section).Item(section, field)
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		in.b.Fatalf("%s: %v", field, err)
	}
	return number
}

func (in *installation) memory() float64 { return in.info("Memory", "used_memory") }

// rest waits until Redis neither writes a file in the background nor works.
func (in *installation) rest() {
	in.b.Helper()
	harness.Eventually(in.b, 5*time.Minute, "Redis to rest", func() error {
		before := in.redisCPU()
		time.Sleep(time.Second)
		worked := in.redisCPU() - before
		if writes := in.info("Persistence", "aof_rewrite_in_progress"); writes != 0 || worked > 20*time.Millisecond {
			return fmt.Errorf("it worked %s in a second", worked)
		}
		return nil
	})
}

// ok ends the benchmark when a request of a load failed.
func (b *bench) ok(s harness.Seen) harness.Seen {
	b.Helper()
	if len(s.Failed) > 0 {
		b.Fatalf("%d clients failed: %s", len(s.Failed), s.Failed[0])
	}
	return s
}

// rate returns how many requests a second clients make as fast as they are answered, without the warm-up.
func (b *bench) rate(clients int, client func(n int) harness.Client) float64 {
	b.Helper()
	load := harness.StartClients(b, clients, 0, client)
	time.Sleep(b.warmUp)
	before, began := load.Requests(), time.Now()
	time.Sleep(b.load)
	made, took := load.Requests()-before, time.Since(began)
	b.ok(load.Stop())
	return float64(made) / took.Seconds()
}

// sending returns clients that send the requests of next, each of which gets the answer to the one before; nil ends a
// client.
func (b *bench) sending(addr string, next func(client int) func(answer []byte) []byte) func(int) harness.Client {
	return func(n int) harness.Client {
		conn, request, answer := &harness.Conn{Addr: addr}, next(n), []byte(nil)
		b.Cleanup(conn.Close)
		return func(ctx context.Context) (err error) {
			send := request(answer)
			if send == nil {
				return harness.ErrDone
			}
			if answer, err = conn.Do(ctx, send, 0); err != nil {
				return err
			}
			if i := bytes.Index(answer, []byte(`"error":{`)); i >= 0 {
				return fmt.Errorf("a job of a batch was refused: %.300s", answer[i:])
			}
			return nil
		}
	}
}

// jobs says what the jobs of a batch are like.
type jobs struct {
	topic func(n int) string // nil: the usual topic
	delay func() time.Duration
	id    func(n int, delay time.Duration) string // nil: ids of 24 bytes, as callers make from keys of their own
}

// atMost returns the requests of next for all clients together, n of them.
func atMost(n int, next func(answer []byte) []byte) func(int) func([]byte) []byte {
	var made atomic.Int64
	return func(int) func([]byte) []byte {
		return func(answer []byte) []byte {
			if made.Add(1) > int64(n) {
				return nil
			}
			return next(answer)
		}
	}
}

// endless is a number of requests that no client makes.
const endless = math.MaxInt

// batches returns clients that push n batches of jobs.
func (in *installation) batches(j jobs, size, n int) func(int) harness.Client {
	return in.b.sending(in.addr(), atMost(n, func([]byte) []byte { return in.batch(j, size) }))
}

func (in *installation) batch(j jobs, size int) []byte {
	first := int(in.jobs.Add(int64(size))) - size
	var s strings.Builder
	s.WriteString(`{"jobs":[`)
	for n := first; n < first+size; n++ {
		delay, name := j.delay(), topic
		id := fmt.Sprintf("order-%018d", n)
		if j.id != nil {
			id = j.id(n, delay)
		}
		if j.topic != nil {
			name = j.topic(n)
		}
		if n > first {
			s.WriteByte(',')
		}
		s.WriteString(`{"topic":"` + name + `","delay":"` + delay.String() + `","body":` + body(n))
		if id != "" {
			s.WriteString(`,"id":"` + id + `"`)
		}
		s.WriteByte('}')
	}
	s.WriteString("]}")
	return harness.Request(http.MethodPost, "/v1/jobs", in.Token, s.String())
}

// fill pushes n jobs.
func (in *installation) fill(j jobs, n int) {
	in.b.Helper()
	size := min(n, 1000)
	in.b.ok(harness.StartClients(in.b, 16, 0, in.batches(j, size, n/size)).Wait())
}

// body returns a JSON object of 64 bytes.
func body(n int) string {
	head := `{"order":` + strconv.Itoa(n) + `,"do":"`
	return head + strings.Repeat("x", 64-len(head)-2) + `"}`
}

func atOnce() time.Duration { return 0 }

// within returns random delays of whole milliseconds.
func within(low, high time.Duration) func() time.Duration {
	return func() time.Duration {
		return low + time.Duration(rand.Int64N((high-low).Milliseconds()))*time.Millisecond
	}
}

// dueID returns an id that tells the endpoint when the job may be called at the earliest, by this machine's clock.
func dueID(n int, delay time.Duration) string {
	return fmt.Sprintf("%d-%d", n, time.Now().Add(delay).UnixMilli())
}
