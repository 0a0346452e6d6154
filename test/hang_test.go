package test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// closedLimit is how long a shard may be closed after its Redis has restarted: five seconds, and what these processes,
// which share the machine with other tests, take to notice.
const closedLimit = 8 * time.Second

// goesOn restarts Redis, and fails when a push is not accepted and called within closedLimit.
func (i *installation) goesOn(t *testing.T, r *harness.Redis, topic string) {
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
	i.endpoint.WaitCalls(t, topic, 1)
	took := time.Since(began)
	t.Logf("accepted after %s, called after %s", accepted.Round(time.Millisecond), took.Round(time.Millisecond))
	if took > closedLimit {
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
	i.goesOn(t, r, topic)
}

// TestARestartOfRedisWhileAnotherHostHangs: the shard does not wait for its journal.
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
		return harness.Equal("hosts", fmt.Sprint(r.Do("HLEN", "wk:{0}:hosts")), "2")
	})
	process.Pause(t, append(second.Children(), second.PID())...)
	i.goesOn(t, r, topic)
}
