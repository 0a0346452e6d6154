package test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// inFlight is how many calls may be in progress at a fault, and so how many duplicates it may explain.
const inFlight = 64

func TestDispatcherKilledInMidCalls(t *testing.T) {
	t.Parallel()
	const jobs = 40
	i := start(t, harness.Options{})
	// The first call of each job is never answered.
	topic := i.topic(t, harness.FirstCalls(1, harness.Hang(), harness.Status(200)),
		M{"ttr": "3s", "retry": []string{"100ms"}})
	ledger := harness.NewLedger()
	for n := range jobs {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), nil)
	}
	i.endpoint.WaitCalls(t, topic, 10)
	before := i.Role("dispatcher")
	for _, pid := range before {
		process.Kill9(t, pid)
	}
	killed := time.Now()
	held := map[string]bool{}
	for _, c := range i.endpoint.Calls(topic) {
		held[c.ID] = true
	}
	i.WaitRole("dispatcher", 2, before...)

	harness.Eventually(t, soon, "the jobs of the dead dispatchers to be called again", func() error {
		for id := range held {
			if len(i.endpoint.CallsOf(topic, id)) < 2 {
				return fmt.Errorf("%s was not", id)
			}
		}
		return nil
	})
	for id := range held {
		again := i.endpoint.CallsOf(topic, id)[1]
		if wait := again.At.Sub(killed); wait > 3*time.Second+time.Second+busy { // TTR, grace, and a busy machine
			t.Errorf("%s was called again %s after the kill; its lease was 3s plus 1s", id, wait)
		}
	}
	ledger.Verdict(t, i.API, i.endpoint, jobs)
}

func TestDispatcherKilledUnderLoad(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	topic := i.topic(t, harness.Slow(30*time.Millisecond), M{"ttr": "5s", "retry": []string{"100ms"}})
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Fields: M{"delay": "50ms"}, PushFailed: noFailure(t)})
	for range 2 {
		ledger.WaitAcknowledged(t, 60)
		old := i.KillRole("dispatcher")
		i.WaitRole("dispatcher", 2, old)
	}
	ledger.WaitAcknowledged(t, 50)
	load.Stop()
	ledger.Verdict(t, i.API, i.endpoint, 2*inFlight)
}

func TestDispatcherSuspendedLongerThanItsLeases(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	topic := i.topic(t, harness.Slow(30*time.Millisecond), M{"ttr": "1s", "retry": []string{"100ms"}})
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger, harness.LoadOptions{Topic: topic, PushFailed: noFailure(t)})
	ledger.WaitAcknowledged(t, 50)
	resume := process.Pause(t, i.Role("dispatcher")[0])
	paused := time.Now()
	harness.Eventually(t, soon, "the other dispatcher to do all the work, for longer than a lease", func() error {
		if err := ledger.AllCalled(i.endpoint); err == nil && time.Since(paused) > 3*time.Second {
			return nil
		}
		return fmt.Errorf("%s after the pause: %v", time.Since(paused), ledger.AllCalled(i.endpoint))
	})
	resume()
	ledger.WaitAcknowledged(t, 50)
	load.Stop()
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

// No call starts after a DELETE was answered, not even of a job that was already reserved.
func TestResumedDispatcherDoesNotCallDeletedJobs(t *testing.T) {
	t.Parallel()
	const jobs = 150
	i := start(t, harness.Options{})
	topic := i.topic(t, harness.Slow(50*time.Millisecond), nil)
	batch := make([]M, jobs)
	for n := range batch {
		batch[n] = M{"topic": topic, "id": fmt.Sprint(n), "body": n}
	}
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": batch})
	i.endpoint.WaitCalls(t, topic, 20)
	resume := process.Pause(t, i.Role("dispatcher")...)
	deleted := map[string]bool{}
	for n := range jobs {
		if answer := i.Do(ctx, http.MethodDelete, harness.JobPath(topic, fmt.Sprint(n)),
			nil); answer.Status == http.StatusNoContent {
			deleted[fmt.Sprint(n)] = true
		}
	}
	// A request that was in transit when the dispatchers were suspended may reach the endpoint during the deletions.
	// Requests that arrive later were sent later.
	resumed := time.Now()
	resume()
	i.passes(t)
	for _, c := range i.endpoint.Calls(topic) {
		if deleted[c.ID] && c.At.After(resumed) {
			t.Errorf("%s was called at %s, after its deletion", c.ID, c.At)
		}
	}
	if len(deleted) == 0 {
		t.Error("no job was left to delete")
	}
}

func TestTimerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Fields: M{"delay": "300ms"}, PushFailed: noFailure(t)})
	for range 2 {
		ledger.WaitAcknowledged(t, 60)
		old := i.KillRole("timer")
		i.WaitRole("timer", 1, old)
	}
	ledger.WaitAcknowledged(t, 50)
	load.Stop()
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Rate: 200, Pushers: 16, Fields: M{"delay": "50ms"}})
	for range 2 {
		ledger.WaitAcknowledged(t, 100)
		old := i.KillRole("server")
		i.WaitRole("server", 1, old)
	}
	ledger.WaitAcknowledged(t, 100)
	load.Stop()
	if n := ledger.Unknown(); n > 2*16 {
		t.Errorf("%d pushes got no answer: more than the connections of the two servers that were killed", n)
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

func TestManagedRedisKilledUnderLoad(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger, harness.LoadOptions{Topic: topic, Fields: M{"delay": "200ms"}})
	ledger.WaitAcknowledged(t, 100)
	old := i.KillRole("redis")
	i.WaitRole("redis", 1, old)
	ledger.WaitAcknowledged(t, 100)
	load.Stop()
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

func TestMasterKilled(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger, harness.LoadOptions{Topic: topic, Fields: M{"delay": "300ms"}})
	ledger.WaitAcknowledged(t, 100)

	old := i.Children()
	i.Kill9()
	killed := time.Now()
	i.Up() // immediately
	harness.Eventually(t, soon, "the old children to notice", func() error {
		for _, p := range process.Below(i.Dir) {
			if slices.Contains(old, p.PID) && strings.HasPrefix(p.Title, "wakecall") {
				return fmt.Errorf("%+v is still running", p)
			}
		}
		return nil
	})
	if took := time.Since(killed); took > 2*time.Second+busy { // 2 s to notice; the calls in progress are short
		t.Errorf("the old children ended after %s", took)
	}
	i.WaitReady()
	ledger.WaitAcknowledged(t, 100)
	load.Stop()
	i.WaitRole("redis", 1)
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

func TestMasterKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 5 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), M{"delay": "200ms"})
		i.Kill9()
		i.Up()
		i.WaitReady()
		harness.Stays(t, 100*time.Millisecond, "one redis-server on the files", func() error {
			if pids := i.Role("redis"); len(pids) > 1 {
				return fmt.Errorf("there are %v", pids)
			}
			return nil
		})
	}
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

func TestSecondMasterIsRefused(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	before := i.Children()
	code, output := i.Run("up")
	if code == 0 || !strings.Contains(output, fmt.Sprint(i.PID())) || !strings.Contains(output, i.Data) {
		t.Errorf("code %d, want an error that names the directory %s and the pid %d:\n%s", code, i.Data, i.PID(),
			output)
	}
	for _, pid := range before {
		if !slices.Contains(i.Children(), pid) {
			t.Errorf("process %d of the first master is gone", pid)
		}
	}
}

func TestTermFinishesCallsInFlight(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, harness.Slow(1500*time.Millisecond), nil)
	ledger := harness.NewLedger()
	for n := range 30 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), nil)
	}
	i.endpoint.WaitCalls(t, topic, 5)
	i.Signal(syscall.SIGTERM)
	if code := i.WaitExit(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	if left := i.Children(); len(left) > 0 {
		t.Errorf("processes %v outlived the master", left)
	}
	i.Up()
	i.WaitReady()
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

func TestTermDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_SHUTDOWN_TIMEOUT": "2s"}})
	topic := i.topic(t, harness.FirstCalls(1, harness.Hang(), harness.Status(200)),
		M{"ttr": "30s", "retry": []string{"100ms"}})
	ledger := harness.NewLedger()
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), nil)
	}
	held := len(i.endpoint.WaitCalls(t, topic, 5))
	began := time.Now()
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	if took := time.Since(began); took > 2*time.Second+busy {
		t.Errorf("the stop took %s with a shutdown_timeout of 2s", took)
	}
	i.Up()
	i.WaitReady()
	ledger.Verdict(t, i.API, i.endpoint, held+20)
}

func TestSecondTermStopsAtOnce(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, harness.Hang(), M{"ttr": "60s"})
	i.MustPush(t, topic, M{"id": "x", "body": 1})
	i.endpoint.WaitCalls(t, topic, 1)
	i.Signal(syscall.SIGTERM)
	harness.Eventually(t, soon, "the server to stop", func() error {
		return harness.Equal("servers", len(i.Role("server")), 0)
	})
	began := time.Now()
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	if took := time.Since(began); took > busy {
		t.Errorf("the second SIGTERM took %s", took)
	}
}

func TestHangupReplacesChildrenWithoutARefusal(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	topic := i.topic(t, nil, nil)
	i.put(t, topic+".kept", nil, nil)
	ledger := harness.NewLedger()
	// A new connection for each push, because those are the ones that a stopping server would refuse.
	load := harness.StartLoad(t, i.API.WithoutKeepAlive(), ledger,
		harness.LoadOptions{Topic: topic, Rate: 150, Pushers: 8, Fields: M{"delay": "50ms"}, PushFailed: noFailure(t)})
	kept := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic + ".kept", Rate: 50, Pushers: 4, PushFailed: noFailure(t)})
	for range 3 {
		ledger.WaitAcknowledged(t, 50)
		old := slices.DeleteFunc(i.Children(), func(pid int) bool { return slices.Contains(i.Role("redis"), pid) })
		i.Signal(syscall.SIGHUP)
		i.WaitRole("server", 1, old...)
		i.WaitRole("dispatcher", 2, old...)
		i.WaitRole("timer", 1, old...)
	}
	ledger.WaitAcknowledged(t, 50)
	load.Stop()
	kept.Stop()
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

func TestHangupFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{File: "dispatchers: 1\ntimers: 2\n"})
	i.WaitRole("dispatcher", 1)
	i.WaitRole("timer", 2)
	i.WriteFile("dispatchers: 3\ntimers: 1\n")
	i.Signal(syscall.SIGHUP)
	i.WaitRole("dispatcher", 3)
	i.WaitRole("timer", 1)
	i.passes(t)
}

func TestHangupWithABrokenConfigurationKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{File: "dispatchers: 2\n"})
	for role, n := range map[string]int{"server": 1, "timer": 1, "dispatcher": 2, "redis-checker": 1, "admin": 1} {
		i.WaitRole(role, n)
	}
	before := i.Children()
	i.WriteFile("dispatchers: many\n")
	i.Signal(syscall.SIGHUP)
	harness.Eventually(t, soon, "the log to name the key", func() error {
		if !strings.Contains(i.Log(4000), "dispatchers") {
			return fmt.Errorf("it ends with %s", i.Log(300))
		}
		return nil
	})
	if now := i.Children(); !slices.Equal(before, now) {
		t.Errorf("the children were %v and are %v", before, now)
	}
}

// unhurried configures an installation in which no push fails because a busy machine delays its Redis.
func unhurried() harness.Options {
	return harness.Options{Env: map[string]string{"WAKECALL_REDIS_TIMEOUT": "20s"}}
}

// noFailure reports the first few failed pushes where none may fail.
func noFailure(t *testing.T) func(harness.Answer) {
	var told atomic.Int32
	return func(a harness.Answer) {
		if told.Add(1) <= 3 {
			t.Errorf("a push failed: %s", a)
		}
	}
}

func TestProcessesAndMetricsAreVisible(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"id": "x", "body": 1})
	i.endpoint.WaitCalls(t, topic, 1)

	code, output := i.Run("ps")
	if code != 0 {
		t.Fatalf("wakecall ps: code %d\n%s", code, output)
	}
	for _, role := range []string{"server", "timer", "dispatcher", "redis"} {
		for _, pid := range i.Role(role) {
			if !strings.Contains(output, fmt.Sprint(pid)) {
				t.Errorf("wakecall ps does not show %s %d:\n%s", role, pid, output)
			}
		}
	}
	harness.Eventually(t, soon, "the metrics to show the callback", func() error {
		metrics := i.Metrics().Do(ctx, http.MethodGet, "/metrics", nil)
		if metrics.Err != nil || metrics.Status != http.StatusOK {
			return fmt.Errorf("/metrics: %s", metrics)
		}
		for _, name := range []string{"wakecall_", "go_goroutines", topic} {
			if !strings.Contains(string(metrics.Body), name) {
				return fmt.Errorf("the metrics have no %q", name)
			}
		}
		return nil
	})
}
