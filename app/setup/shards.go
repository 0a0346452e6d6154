package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// ShardConfigs converts the registry's shards for the queue. The managed redis-server is in this installation's
// data_dir.
func ShardConfigs(cfg *conf.Config, shards []registry.Shard) []store.ShardConfig {
	var list []store.ShardConfig
	for _, s := range shards {
		if s.URL == "" { // lost, or encrypted with another key
			continue
		}
		url := s.URL
		if url == registry.ManagedShard {
			url = "unix://" + cfg.RedisSocket()
		}
		list = append(list, store.ShardConfig{
			Name: s.Name, URL: url, State: string(s.State), Identity: s.Identity, Former: s.Former,
		})
	}
	return list
}

// seedShards returns the shards of the first start: redis.nodes, or the redis-server that the master runs.
func seedShards(cfg *conf.Config) []registry.Shard {
	if cfg.ManagedRedis() {
		return []registry.Shard{{Name: "managed", URL: registry.ManagedShard, State: registry.ShardActive}}
	}
	var shards []registry.Shard
	for i, node := range cfg.Redis.Nodes {
		name := fmt.Sprintf("redis-%d", i+1)
		shards = append(shards, registry.Shard{Name: name, URL: node.Reveal(), State: registry.ShardActive})
	}
	return shards
}

// PlannedShards returns the shards that a start would use.
func PlannedShards(ctx context.Context, cfg *conf.Config, r *registry.Registry) []registry.Shard {
	if list := r.Snapshot().Shards; len(list) > 0 || r.Seeded(ctx) {
		return list
	}
	return seedShards(cfg)
}

// Error if there is no shard, and the advice.
const (
	noShard     = "no shard registered; pushes are refused"
	addingShard = "Add one: `wakecall shard add redis-1 --url redis://…`, or, for the redis-server that `wakecall " +
		"up` " +
		"runs itself, `wakecall shard add managed --url managed:` and a restart"
)

// OpenShard connects to one shard, which must not be offline. It does not change the shard's data, not even its
// identity.
func OpenShard(_ context.Context, cfg *conf.Config, s registry.Shard) (*store.Shard, func(), error) {
	return openShard(cfg, s, nil)
}

// TryShard is like OpenShard for a URL that an admin has typed: it refuses addresses that nothing may call.
func TryShard(_ context.Context, cfg *conf.Config, s registry.Shard) (*store.Shard, func(), error) {
	return openShard(cfg, s, callback.Control)
}

func openShard(cfg *conf.Config, s registry.Shard, control store.Control) (*store.Shard, func(), error) {
	if s.URL == "" {
		return nil, nil, errors.New("no URL")
	}
	s.Identity = ""
	q, err := openQueue(cfg, []registry.Shard{s}, control)
	if err != nil {
		_ = q.Close()
		return nil, nil, err
	}
	return q.Shards.All()[0], func() { _ = q.Close() }, nil
}

// OpenQueue opens shards for a few calls. If it returns an error, the queue has only the shards with a valid URL.
func OpenQueue(_ context.Context, cfg *conf.Config, shards []registry.Shard) (*queue.Queue, error) {
	return openQueue(cfg, shards, nil)
}

func openQueue(cfg *conf.Config, shards []registry.Shard, control store.Control) (*queue.Queue, error) {
	q := queue.Open(store.Options{
		Timeout: cfg.Redis.Timeout, PoolSize: 2, Buckets: cfg.Redis.Buckets, Settings: CommonSettings(cfg),
		Control: control,
	})
	return q, q.Shards.Set(ShardConfigs(cfg, shards))
}

// IsManaged reports whether a shard is the redis-server that the master runs.
func IsManaged(shards []registry.Shard) bool {
	return slices.ContainsFunc(shards, func(s registry.Shard) bool {
		return s.URL == registry.ManagedShard && s.State != registry.ShardOffline
	})
}
