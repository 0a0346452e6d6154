package test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// onRedis configures an installation for Redis servers that the test starts.
func onRedis(servers ...*harness.Redis) harness.Options {
	var urls []string
	for _, r := range servers {
		urls = append(urls, r.URL())
	}
	return harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": strings.Join(urls, ",")}}
}

func TestRedisSuspendedForFiveSeconds(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	ledger := harness.NewLedger()
	answers := &answers{}
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Rate: 100, Pushers: 16, Fields: M{"delay": "200ms"}, PushFailed: answers.add})
	ledger.WaitAcknowledged(t, 100)

	r.Pause()
	began := time.Now()
	answer := i.Push(ctx, topic+"", M{"id": "during", "body": 1, "delay": "1h"})
	if took := time.Since(began); took > busy {
		t.Errorf("a push was answered after %s", took)
	}
	if answer.Status != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a push was answered %s, want 503 with Retry-After", answer)
	}
	harness.Stays(t, 5*time.Second-time.Since(began), "the processes", func() error { return i.allAlive() })
	r.Resume()

	ledger.WaitAcknowledged(t, 100)
	load.Stop()
	answers.all(t, http.StatusServiceUnavailable)
	i.Do(ctx, http.MethodDelete, harness.JobPath(topic, "during"), nil) // nobody knows whether it was stored
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

// allAlive returns nil while no child was replaced.
func (i *installation) allAlive() error {
	for role, n := range map[string]int{"server": 1, "timer": 1, "dispatcher": 2} {
		if got := len(i.Role(role)); got != n {
			return fmt.Errorf("%d of %s are running, want %d", got, role, n)
		}
	}
	return nil
}

// answers collects the answers of failed pushes.
type answers struct {
	mu  sync.Mutex
	got []harness.Answer
}

func (a *answers) add(answer harness.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = append(a.got, answer)
}

// all checks that every failed push was answered with the status.
func (a *answers) all(t *testing.T, status int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, answer := range a.got {
		if answer.Err != nil || answer.Status != status {
			t.Errorf("of %d pushes that failed, one was answered %s, want %d", len(a.got), answer, status)
			return
		}
	}
	t.Logf("%d pushes were answered %d", len(a.got), status)
}

func TestRedisKilledAndBack(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	ledger := harness.NewLedger()
	answers := &answers{}
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Fields: M{"delay": "200ms"}, PushFailed: answers.add})
	ledger.WaitAcknowledged(t, 100)
	r.Kill9()
	harness.Eventually(t, soon, "/readyz to fail", func() error {
		if i.Readyz() == nil {
			return fmt.Errorf("it is ready")
		}
		return nil
	})
	r.Restart()
	ledger.WaitAcknowledged(t, 100)
	load.Stop()
	answers.all(t, http.StatusServiceUnavailable)
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

func TestOneShardDown(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	a, b := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(a, b))
	topic := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	ledger := harness.NewLedger()
	for n := range 60 { // due after the fault, whichever shard has them
		ledger.MustPush(t, i.API, topic, fmt.Sprint("early-", n), M{"delay": "4s"})
	}
	b.Kill9()
	harness.Eventually(t, soon, "a push of each job to reach the other shard", func() error {
		for n := range 20 {
			if answer := ledger.Push(ctx, i.API, topic, fmt.Sprint("other-", n), nil); answer.Err != nil ||
				answer.Status >= 300 {
				return fmt.Errorf("push: %s", answer)
			}
		}
		return nil
	})
	harness.Eventually(t, soon, "their calls", func() error {
		for n := range 20 {
			if len(i.endpoint.CallsOf(topic, fmt.Sprint("other-", n))) == 0 {
				return fmt.Errorf("other-%d was not called", n)
			}
		}
		return nil
	})
	b.Restart()
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 50 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("due-", n), M{"delay": "3s"})
	}
	r.ConfigSet("maxmemory", strconv.FormatInt(usedMemory(t, r)+4<<20, 10))
	ballast := topic + ".ballast"
	i.put(t, ballast, nil, nil)
	body := strings.Repeat("x", 100_000)

	var refused harness.Answer
	stored := 0
	for refused.Status == 0 && stored < 200 {
		answer := i.Push(ctx, ballast, M{"id": fmt.Sprint(stored), "body": body, "delay": "1h"})
		switch answer.Status {
		case http.StatusCreated:
			stored++
		default:
			refused = answer
		}
	}
	if problem(t, refused); refused.Status != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Fatalf("the push after %d was answered %s, want 503 with Retry-After", stored, refused)
	}
	i.MustDo(t, http.StatusNotFound, http.MethodGet, harness.JobPath(ballast, fmt.Sprint(stored)), nil)
	if s := i.MustStats(t, ballast); s.Delayed != stored {
		t.Errorf("stats are %+v after %d pushes that were stored", s, stored)
	}
	harness.Eventually(t, soon, "callbacks to continue", func() error {
		return ledger.AllCalled(i.endpoint)
	})
	for n := range stored {
		i.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(ballast, fmt.Sprint(n)), nil)
	}
	harness.Eventually(t, soon, "pushes to be accepted again", func() error {
		answer := ledger.Push(ctx, i.API, topic, "after", nil)
		return harness.Equal("status", answer.Status, http.StatusCreated)
	})
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

func usedMemory(t *testing.T, r *harness.Redis) int64 {
	t.Helper()
	for line := range strings.Lines(fmt.Sprint(r.Do("INFO", "memory"))) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("INFO has no used_memory")
	return 0
}
