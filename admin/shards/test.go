package shards

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// shardCheck is one result of a connection test.
type shardCheck struct {
	Kind string // success, warning, danger
	Text message.Message
}

type shardTest struct {
	Up     bool
	Err    message.Message
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
		return shardTest{Err: message.Plain(err.Error())}
	}
	defer closeShard()
	if _, _, err := shard.Ping(ctx); err != nil {
		return shardTest{Err: failure(err)}
	}
	state, problems := health.Try(ctx, shard)
	t := shardTest{Up: state.Up, Err: message.Plain(state.Err)}
	if !state.Up {
		return t
	}
	t.Checks = []shardCheck{{"success", message.New("shards.check_answers", state.Latency, state.Version)}}
	for _, p := range problems {
		t.Checks = append(t.Checks, shardCheck{severityColor(p.Severity), p.Says()})
	}
	return t
}

// failure says why there was no connection. It never quotes what was received: it may come from any server that this
// host reaches.
func failure(err error) message.Message {
	if store.Refused(err) {
		return message.New("shards.fail_login")
	}
	return message.New("shards.fail_" + callback.Reason(err))
}

func severityColor(s health.Severity) string {
	if s == health.Critical {
		return "danger"
	}
	return "warning"
}
