package shards

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// shardCheck is one result of a connection test. Key names a text, Args are its arguments.
type shardCheck struct {
	Kind string // success, warning, danger
	Key  string
	Args []any
}

type shardTest struct {
	Up     bool
	Err    string // the error of Redis or the network
	Checks []shardCheck
}

const shardTestLimit = 5 * time.Second

// testShard tries a connection as the processes would use it, without registering the shard.
func (h *Handler) testShard(ctx context.Context, s registry.Shard) shardTest {
	ctx, cancel := context.WithTimeout(ctx, shardTestLimit)
	defer cancel()
	s.State = registry.ShardActive
	shard, closeShard, err := h.Open(ctx, s)
	if err != nil {
		return shardTest{Err: err.Error()}
	}
	defer closeShard()
	state, problems := health.Try(ctx, shard)
	t := shardTest{Up: state.Up, Err: state.Err}
	if !state.Up {
		return t
	}
	t.Checks = []shardCheck{{"success", "shards.check_answers", []any{state.Latency, state.Version}}}
	for _, p := range problems {
		t.Checks = append(t.Checks, checkOf(p, state))
	}
	return t
}

// checkOf converts a problem to a message.
func checkOf(p health.Problem, h queue.ShardHealth) shardCheck {
	args := map[health.Kind][]any{
		health.Version: {h.Version, health.OldestRedis}, health.Eviction: {h.Policy}, health.WriteError: {h.WriteError},
		health.Memory: {page.ByteSize(h.Memory), page.ByteSize(h.MaxMemory)}, health.HasJobs: {page.Num(h.Jobs)},
		health.Duplicate: {h.SameAs}, health.Settings: {h.Differ}, health.Clock: {p.Off.Abs()},
	}
	return shardCheck{severityColor(p.Severity), "shards.check_" + string(p.Kind), args[p.Kind]}
}

func severityColor(s health.Severity) string {
	if s == health.Critical {
		return "danger"
	}
	return "warning"
}
