package test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
)

// killedImport runs imports, killing them with SIGKILL at random times, until one ends.
func killedImport(t *testing.T, i *installation, args ...string) (kills int) {
	t.Helper()
	const most = 8
	for n := 1; ; n++ {
		cmd := exec.Command(harness.Binary(t), append([]string{"import"}, args...)...)
		cmd.Dir, cmd.Env = i.Dir, append(os.Environ(), "WAKECALL_DATA_DIR="+i.Data)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		delay := 300*time.Millisecond + time.Duration(n)*50*time.Millisecond
		switch {
		case n > most:
			delay = time.Minute
		case n%2 == 0: // beyond the wait at the beginning of an import that continues
			delay += 3 * time.Second
		}
		kill := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err == nil {
			return kills
		}
		if kills++; n > most+20 { // imports that meet the lock of one that was just killed
			t.Fatalf("the import does not end: %v", err)
		}
	}
}

// oldSystem is a queue to import from. Its jobs have the ids 0, 1, …: even ones are ready, the others are due in an
// hour.
type oldSystem struct {
	args  []string // of `wakecall import`
	topic string   // of its jobs in Wakecall
	fill  func(jobs int)
	// consume takes and finishes one job as a consumer of the old system does, and returns its number; "" if none is
	// ready.
	consume func() string
	// left is the number of jobs in the old system.
	left func() int64
	// number returns the number of a job in Wakecall.
	number func(id, body string) string
}

var oldSystems = map[string]func(*testing.T) *oldSystem{
	"lmstfy": oldLmstfy, "delayqueue": oldDelayQueue, "grape": oldGrape, "beanstalk": oldBeanstalkd,
}

// consumed counts how often each job was consumed.
type consumed struct {
	mu    sync.Mutex
	times map[string]int
	old   int // by consumers of the old system
}

func (c *consumed) add(number string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[number]++
}

// addOld counts a job that was consumed in the old system; "" is none.
func (c *consumed) addOld(number string) {
	if number == "" {
		return
	}
	c.add(number)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old++
}

func (c *consumed) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.times)
}

// drain consumes jobs in Wakecall until it has none ready after stop.
func (c *consumed) drain(i *installation, old *oldSystem, stop <-chan struct{}) {
	for {
		ending := false
		select {
		case <-stop:
			ending = true
		default:
		}
		var got struct {
			Jobs []struct {
				Lease, ID string
				Body      json.RawMessage
				Base64    []byte `json:"body_base64"`
			}
		}
		r := i.Do(ctx, "POST", "/v1/topics/"+old.topic+"/reserve", M{"max": 100, "wait": "200ms"})
		if r.Status != 200 || r.JSON(&got) != nil || len(got.Jobs) == 0 {
			if ending {
				return
			}
			continue
		}
		var leases []string
		for _, job := range got.Jobs {
			leases = append(leases, job.Lease)
			c.add(old.number(job.ID, strings.Trim(string(job.Body), `"`)+string(job.Base64)))
		}
		i.Do(ctx, "POST", "/v1/leases", M{"ack": leases})
	}
}

// An import that is killed at any point, while consumers of both systems run, is started again: each job is consumed
// once.
func TestKilledImportsMoveEachJobOnce(t *testing.T) {
	t.Parallel()
	for name, start := range oldSystems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 30_000
			old := start(t)
			i := startImporting(t)
			old.fill(jobs)
			c, stop := &consumed{times: map[string]int{}}, make(chan struct{})
			var consumers sync.WaitGroup
			consumers.Go(func() { c.drain(i, old, stop) })
			consumers.Go(func() { c.consumeOld(old, stop) })
			began := time.Now()
			kills := killedImport(t, i, append([]string{name}, old.args...)...)
			took := time.Since(began)
			harness.Eventually(t, time.Minute, "the old system is empty", func() error {
				return harness.Equal("jobs of the old system", old.left(), 0)
			})
			close(stop)
			consumers.Wait()
			delayed := i.MustStats(t, old.topic).Delayed
			t.Logf("%d kills in %s; %d jobs were consumed, %d of them from the old system", kills, took, len(c.times),
				c.old)
			for number, times := range c.times {
				if n, _ := strconv.Atoi(number); times != 1 || n%2 != 0 {
					t.Errorf("job %s was consumed %d times", number, times)
				}
			}
			if len(c.times) != jobs/2 || delayed != jobs/2 {
				t.Errorf("%d jobs were consumed and %d are delayed, want %d each", len(c.times), delayed, jobs/2)
			}
		})
	}
}

// An import that follows continues after outages of both systems: each job is in one of them, and in the end all are
// here.
func TestAFollowingImportGoesOnAfterOutages(t *testing.T) {
	t.Parallel()
	for name, begin := range oldSystems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 20_000
			old := begin(t)
			opts, shard := behindProxy(t)
			i := start(t, opts)
			old.fill(jobs)
			address := strings.TrimPrefix(old.args[1], "redis://")
			link := harness.StartProxy(t, address)
			args := append([]string{"import", name, "--follow", old.args[0],
				strings.Replace(old.args[1], address, link.Addr(), 1)}, old.args[2:]...)
			follow := exec.Command(harness.Binary(t), args...)
			follow.Dir, follow.Env = i.Dir, append(os.Environ(), "WAKECALL_DATA_DIR="+i.Data,
				"WAKECALL_REDIS_NODES="+opts.Env["WAKECALL_REDIS_NODES"])
			says, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			must(t, err)
			defer says.Close()
			follow.Stderr = says
			must(t, follow.Start())
			defer func() { _ = follow.Process.Kill() }()
			interrupted := func(n int) func() error {
				return func() error {
					text, err := os.ReadFile(says.Name())
					must(t, err)
					if got := strings.Count(string(text), "import interrupted; retrying"); got < n {
						return fmt.Errorf("%d interruptions: %s", got, text)
					}
					return nil
				}
			}
			harness.Eventually(t, soon, "the first jobs arrive", func() error {
				s, err := i.Stats(ctx, old.topic)
				if err == nil && s.Delayed+s.Ready == 0 {
					err = fmt.Errorf("%+v", s)
				}
				return err
			})
			for n, cut := range []*harness.Proxy{link, shard} {
				cut.Set(harness.Trouble{Cut: true})
				harness.Eventually(t, soon, "the log names the interruption", interrupted(n+1))
				cut.Heal()
			}
			harness.Eventually(t, time.Minute, "all jobs to be here", func() error {
				s, err := i.Stats(ctx, old.topic)
				return errors.Join(err, harness.Equal("here", s.Delayed+s.Ready, jobs),
					harness.Equal("left", old.left(), 0))
			})
			must(t, follow.Process.Signal(syscall.SIGINT))
			if err := follow.Wait(); err != nil {
				text, _ := os.ReadFile(says.Name())
				t.Errorf("the import ended with %v: %s", err, text)
			}
		})
	}
}

// startImporting starts an installation without gateways.
func startImporting(t *testing.T) *installation { return start(t, harness.Options{}) }

func (c *consumed) consumeOld(old *oldSystem, stop <-chan struct{}) {
	for {
		c.addOld(old.consume())
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// patient is a client that never sends a command twice, as a client that lost an answer would.
func patient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		MaxRetries: -1})
}

func oldRedisServer(t *testing.T) (url string, db *redis.Client) {
	t.Helper()
	needProcesses(t)
	server := harness.StartRedis(t, harness.RedisOptions{})
	db = patient(server.Addr())
	t.Cleanup(func() { _ = db.Close() })
	return "redis://" + server.Addr(), db
}

// filled runs a function for each job, with pipelined commands.
func filled(
	t *testing.T, db *redis.Client, add func(c redis.Pipeliner, n int, number string, due time.Time),
) func(jobs int) {
	return func(jobs int) {
		t.Helper()
		_, err := db.Pipelined(ctx, func(c redis.Pipeliner) error {
			for n := range jobs {
				due := time.Now()
				if n%2 == 1 {
					due = due.Add(time.Hour)
				}
				add(c, n, strconv.Itoa(n), due)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func itself(id, _ string) string { return id }

// With WAKECALL_IMPORT_JOBS=100000 it logs the speed of imports.
func TestImportsCountFirst(t *testing.T) {
	t.Parallel()
	jobs, err := strconv.Atoi(cmp.Or(os.Getenv("WAKECALL_IMPORT_JOBS"), "100"))
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range oldSystems {
		t.Run(name, func(t *testing.T) {
			old, i := start(t), startImporting(t)
			old.fill(jobs)
			var report struct{ Waiting, Imported int }
			run := func(args ...string) {
				t.Helper()
				code, out := i.Run(append(append([]string{"import", name, "-o", "json"}, old.args...), args...)...)
				if begin := strings.Index(out, "{"); code != 0 || begin < 0 ||
					json.Unmarshal([]byte(out[begin:]), &report) != nil {
					t.Fatalf("exit %d: %s", code, out)
				}
			}
			if run("--dry-run"); report.Waiting != jobs || report.Imported != 0 {
				t.Errorf("the dry run: %+v", report)
			}
			began := time.Now()
			if run(); report.Imported != jobs || old.left() != 0 {
				t.Errorf("%+v, and the old system has %d", report, old.left())
			}
			t.Logf("%d jobs in %s, %.0f a second", jobs, time.Since(began), float64(jobs)/time.Since(began).Seconds())
		})
	}
}
