package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// CheckRedis rejects a Redis that is already a shard, because draining one of the two names would destroy the jobs of
// both. It also rejects a new address for a shard if the Redis there has data that is not the shard's: the shard's jobs
// would be left behind, and would not be replayed from the journals, since the revisions in that data are unrelated to
// them. CheckRedis accepts a Redis that does not answer. If that turns out to be another shard, it is not used. Errors:
// *registry.FieldError.
func CheckRedis(ctx context.Context, cfg *conf.Config, registered []registry.Shard, s registry.Shard) error {
	for _, other := range registered {
		if other.Name == s.Name && other.URL == s.URL {
			return nil
		}
	}
	for _, other := range registered {
		if other.Name != s.Name && other.URL == s.URL {
			return duplicateOf(s, other.Name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*cfg.Redis.Timeout)
	defer cancel()
	identifyAll(ctx, cfg, registered) // a shard may have been flushed
	s.State = registry.ShardActive
	shard, done, err := OpenShard(ctx, cfg, s)
	if err != nil {
		return registry.Malformed("url", "", err)
	}
	defer done()
	if err := shard.CheckFormat(ctx); errors.Is(err, store.ErrFormat) {
		return &registry.FieldError{Field: "url", Message: message.Plain(err.Error())}
	}
	is, err := shard.Identity(ctx)
	if err != nil || is == "" {
		return nil
	}
	if other := sameAs(is, s, registered); other != "" {
		return duplicateOf(s, other)
	}
	was := slices.IndexFunc(registered, func(r registry.Shard) bool { return r.Name == s.Name })
	if was >= 0 && registered[was].Identity != is {
		return otherData(s)
	}
	return nil
}

// sameAs returns the name of another shard with this identity, or "".
func sameAs(identity string, s registry.Shard, registered []registry.Shard) string {
	for _, other := range registered {
		if other.Name != s.Name && other.Identity == identity {
			return other.Name
		}
	}
	return ""
}

func otherData(s registry.Shard) error {
	return registry.Malformed("url", "field.other_data", s.Name)
}

func duplicateOf(s registry.Shard, other string) error {
	return registry.Malformed("url", "field.same_redis", other,
		printable.Command("wakecall shard rename", other, s.Name), printable.Command("wakecall shard put", other))
}

// identifyAll ensures that the data of each shard that answers has its identity, and returns the shards whose data
// belongs to another shard.
func identifyAll(ctx context.Context, cfg *conf.Config, shards []registry.Shard) (duplicates map[string]string) {
	q, _ := OpenQueue(ctx, cfg, shards) // omits shards with an invalid URL, which are rejected elsewhere
	defer q.Close()
	duplicates = map[string]string{}
	for _, s := range q.Shards.All() {
		if same, ok := errors.AsType[*store.SameRedisError](s.Check(ctx)); ok {
			duplicates[s.Name()] = same.Shard
		}
	}
	return duplicates
}

// checkSeed returns the shards in redis.nodes with new identities. It returns an error if two of them are the same
// Redis.
func checkSeed(ctx context.Context, cfg *conf.Config) ([]registry.Shard, error) {
	shards := seedShards(cfg)
	for i := range shards {
		shards[i].Identity = rand.Text()
	}
	if cfg.ManagedRedis() || len(shards) < 2 {
		return shards, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*cfg.Redis.Timeout)
	defer cancel()
	for name, other := range identifyAll(ctx, cfg, shards) {
		return nil, fmt.Errorf("redis.nodes: node %s is the same Redis as node %s: list it once",
			name[len("redis-"):], other[len("redis-"):])
	}
	return shards, nil
}
