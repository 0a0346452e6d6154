package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// shardCheck is one thing that a test of a connection found. Key is of a text, Args are its arguments.
type shardCheck struct {
	Kind string // success, warning, danger
	Key  string
	Args []any
}

type shardTest struct {
	Up     bool
	Err    string // as Redis or the network said it
	Checks []shardCheck
}

func (t *shardTest) add(kind, key string, args ...any) {
	t.Checks = append(t.Checks, shardCheck{kind, "shards.check_" + key, args})
}

const (
	shardTestLimit = 5 * time.Second
	redisNeeded    = 7 // whose scripts can have flags
	clockTolerance = 2 * time.Second
	memoryHigh     = 0.85
)

// shardConfig is what the queue opens for a shard.
func (a *Admin) shardConfig(s registry.Shard) queue.ShardConfig {
	if f := a.opts.Pages.ResolveShard; f != nil {
		return f(s)
	}
	return queue.ShardConfig{Name: s.Name, URL: s.URL, State: string(s.State)}
}

// testShard tries a connection as the processes would use it, without registering anything.
func (a *Admin) testShard(ctx context.Context, s registry.Shard) shardTest {
	ctx, cancel := context.WithTimeout(ctx, shardTestLimit)
	defer cancel()
	q := queue.Open(queue.Options{Timeout: 2 * time.Second, PoolSize: 2})
	defer func() { _ = q.Close() }()
	s.State = registry.ShardActive
	if err := q.SetShards(ctx, []queue.ShardConfig{a.shardConfig(s)}); err != nil {
		return shardTest{Err: err.Error()}
	}
	shard := q.Shards()[0]
	h := shard.Health(ctx)
	t := shardTest{Up: h.Up, Err: h.Err}
	if !h.Up {
		return t
	}
	t.judge(h)
	if clock, _, err := shard.Ping(ctx); err == nil {
		t.judgeClock(clock.Sub(a.opts.Now()))
	}
	return t
}

func (t *shardTest) judge(h queue.ShardHealth) {
	t.add("success", "answers", duration(h.Latency), h.Version)
	major, _, _ := strings.Cut(h.Version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < redisNeeded {
		t.add("danger", "version", h.Version, redisNeeded)
	}
	if h.Policy != "noeviction" {
		t.add("danger", "policy", h.Policy)
	}
	if !h.AOF {
		t.add("warning", "aof")
	}
	if h.WriteError != "" {
		t.add("danger", "write", h.WriteError)
	}
	if h.LinkDown {
		t.add("danger", "link")
	}
	if h.MaxMemory == 0 {
		t.add("warning", "maxmemory")
	} else if float64(h.Memory) > memoryHigh*float64(h.MaxMemory) {
		t.add("warning", "memory", byteSize(h.Memory), byteSize(h.MaxMemory))
	}
	if h.Jobs > 0 {
		t.add("warning", "jobs", num(h.Jobs))
	}
}

func (t *shardTest) judgeClock(off time.Duration) {
	if off.Abs() > clockTolerance {
		t.add("warning", "clock", duration(off.Abs()))
	}
}
