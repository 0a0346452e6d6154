package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// TestOneRedisUnderTwoNames: a second name is refused when it is added, and not used if it is already registered; the
// rename that was intended keeps every job.
func TestOneRedisUnderTwoNames(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	byName := strings.Replace(r.URL(), "127.0.0.1", "localhost", 1)
	opts := onRedis(r)
	opts.Env["WAKECALL_REDIS_NODES"] = r.URL() + "," + byName
	twice := harness.New(t, opts)
	if code, output := twice.Run("up"); code <= 0 || !strings.Contains(output, "node 2 is the same Redis as node 1") {
		t.Errorf("redis.nodes with one Redis twice: code %d\n%s", code, output)
	}
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 100 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("job-", n), M{"delay": "15s"})
	}
	code, output := i.Run("shard", "add", "main", "--url", byName)
	if code <= 0 || !strings.Contains(output, "shard redis-1") ||
		!strings.Contains(output, "shard rename redis-1 main") {
		t.Errorf("shard add: code %d; want a refusal that offers the rename:\n%s", code, output)
	}
	db := i.registryFile(t)
	if _, err := db.Exec(
		`INSERT INTO shards (name, url, state, identity, former) VALUES ('twin', ?, 'active', 'twin', '')`,
		byName); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE revision SET value = value + 1`); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, "the second name to be refused and reported", func() error {
		answer := i.Do(ctx, http.MethodGet, "/v1/shards", nil)
		if !strings.Contains(string(answer.Body), "the same Redis as shard redis-1") {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	if _, output := i.Run("check"); !strings.Contains(output, "is the same Redis as shard redis-1") {
		t.Errorf("wakecall check does not report it:\n%s", output)
	}
	i.succeeds(t, "shard", "put", "twin", "--state", "draining")
	i.succeeds(t, "shard", "rename", "redis-1", "main")
	harness.Eventually(t, soon, "the processes to know the new name", func() error {
		answer := i.Do(ctx, http.MethodGet, "/v1/shards", nil)
		if body := string(answer.Body); !strings.Contains(body, "the same Redis as shard main") {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	i.succeeds(t, "shard", "delete", "twin", "--force")
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// TestAShardGetsNoAddressOfOtherData: the data of a removed shard does not have this shard's jobs, nor would they be
// recovered from the journals. An empty Redis gets them.
func TestAShardGetsNoAddressOfOtherData(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	first, second, empty := harness.StartRedis(t, harness.RedisOptions{}),
		harness.StartRedis(t, harness.RedisOptions{}),
		harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(first))
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("job-", n), M{"delay": "20s"})
	}
	i.succeeds(t, "shard", "add", "redis-2", "--url", second.URL())
	i.succeeds(t, "shard", "drain", "redis-1")
	i.succeeds(t, "shard", "delete", "redis-1")
	code, output := i.Run("shard", "put", "redis-2", "--url", first.URL())
	if code <= 0 || !strings.Contains(output, "the jobs of shard redis-2 are not in it") {
		t.Errorf("the address of a removed shard's data: code %d; want a refusal:\n%s", code, output)
	}
	i.succeeds(t, "shard", "put", "redis-2", "--url", empty.URL())
	ledger.Verdict(t, i.API, i.endpoint, 0)
}
