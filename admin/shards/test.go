package shards

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
)

// shardCheck is one result of a connection test.
type shardCheck struct {
	Kind string // success, warning, danger
	Text message.Message
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
	t.Checks = []shardCheck{{"success", message.New("shards.check_answers", state.Latency, state.Version)}}
	for _, p := range problems {
		t.Checks = append(t.Checks, shardCheck{severityColor(p.Severity), p.Says()})
	}
	return t
}

func severityColor(s health.Severity) string {
	if s == health.Critical {
		return "danger"
	}
	return "warning"
}
