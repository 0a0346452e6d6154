package test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// noticed is what these processes, which share the machine with other tests, take to notice that Redis has restarted.
const noticed = 3 * time.Second

// goesOn restarts Redis, and fails when a push is not accepted within five seconds, and called within a limit.
func (i *installation) goesOn(t *testing.T, r *harness.Redis, topic string, limit time.Duration) {
	t.Helper()
	r.Kill9()
	r.Restart()
	began := time.Now()
	harness.Eventually(t, soon, "a push to be accepted", func() error {
		answer := i.Push(ctx, topic, M{"body": 1})
		if answer.Status != http.StatusCreated {
			return fmt.Errorf("it is answered %s", answer)
		}
		return nil
	})
	accepted := time.Since(began)
	harness.Eventually(t, limit+soon, "its call", func() error {
		return harness.Equal("calls", len(i.endpoint.Calls(topic)), 1)
	})
	took := time.Since(began)
	t.Logf("accepted after %s, called after %s", accepted.Round(time.Millisecond), took.Round(time.Millisecond))
	if accepted > 5*time.Second+noticed || took > limit+noticed {
		t.Errorf("accepted after %s, called after %s", accepted, took)
	}
}

// TestARestartOfRedisWhileTheCheckerHangs: another process of the host compares the shard with the journal.
func TestARestartOfRedisWhileTheCheckerHangs(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, nil)
	process.Pause(t, i.WaitRole("redis-checker", 1)...)
	i.goesOn(t, r, topic, 5*time.Second)
}

// TestARestartOfRedisWhileAnotherHostHangs: pushes are accepted, and calls wait for its journal, but not for long.
func TestARestartOfRedisWhileAnotherHostHangs(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	opts := onRedis(r)
	i := start(t, opts)
	topic := i.topic(t, nil, nil)
	other := onRedis(r)
	other.Env["WAKECALL_REGISTRY_DSN"] = "sqlite:" + i.Data + "/registry.db"
	second := harness.New(t, other)
	second.Up()
	harness.Eventually(t, soon, "both hosts to attend the shard", func() error {
		return harness.Equal("hosts", fmt.Sprint(r.Do("HLEN", "wk:{0}:hosts")), "8") // four fields each
	})
	process.Pause(t, append(second.Children(), second.PID())...)
	i.goesOn(t, r, topic, 30*time.Second)
}
