package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

func redisKinds(length time.Duration) []kind {
	kinds := []kind{
		{"redis killed", killRedis}, {"redis stopped", stopRedis}, {"redis full", fillRedis},
		{"redis forgot its last second", makeRedisForget}, {"redis lost everything", makeRedisLose},
		{"redis flushed", flushRedis}, {"redis replica promoted", promote},
		network("redis network slow", func(r *rand.Rand) harness.Trouble {
			return harness.Trouble{Delay: between(r, 20*time.Millisecond, 400*time.Millisecond)}
		}),
		network("redis network cut", func(*rand.Rand) harness.Trouble { return harness.Trouble{Cut: true} }),
		network("redis network held up", func(*rand.Rand) harness.Trouble { return harness.Trouble{Hold: true} }),
		network("redis answers swallowed", func(*rand.Rand) harness.Trouble { return harness.Trouble{Swallow: true} }),
		network(
			"redis answers lost",
			func(r *rand.Rand) harness.Trouble { return harness.Trouble{LoseEvery: 3 + r.IntN(20)} },
		),
		network("redis network trickles", func(*rand.Rand) harness.Trouble { return harness.Trouble{Trickle: true} }),
	}
	for _, age := range []time.Duration{time.Second, time.Minute, oldestBackup} {
		if length > age {
			kinds = append(kinds, restoreRedis(age))
		}
	}
	return kinds
}

// oldestBackup is the maximum age of a backup from which a server is restored.
const oldestBackup = 10 * time.Minute

// restoreRedis restores a server from an earlier backup.
func restoreRedis(age time.Duration) kind {
	name := fmt.Sprintf("redis restored from %.0f s ago", age.Seconds())
	return kind{name, func(s *site, r *rand.Rand) fault {
		sh, target := s.shard(r)
		return fault{
			Name: name, Target: target, Hold: between(r, 0, 3*time.Second),
			Inject: func(context.Context) error {
				was, err := sh.backups.Restore(age)
				s.t.Logf("the backup of %s is %s old", target, was.Round(time.Millisecond))
				return err
			},
			Heal: func(context.Context) error { sh.server.Restart(); return nil },
		}
	}}
}

func (s *site) shard(r *rand.Rand) (*shard, string) {
	n := r.IntN(len(s.shards))
	return s.shards[n], fmt.Sprintf("redis %d", n+1)
}

func killRedis(s *site, r *rand.Rand) fault {
	sh, name := s.shard(r)
	return fault{
		Name: "redis killed", Target: name, Hold: between(r, 0, 5*time.Second),
		Inject: func(context.Context) error { sh.server.Kill9(); return nil },
		Heal:   func(context.Context) error { sh.server.Restart(); return nil },
	}
}

func stopRedis(s *site, r *rand.Rand) fault {
	sh, name := s.shard(r)
	return fault{
		Name: "redis stopped", Target: name, Hold: between(r, 300*time.Millisecond, 9*time.Second),
		Inject: func(context.Context) error { sh.server.Pause(); return nil },
		Heal:   func(context.Context) error { sh.server.Resume(); return nil },
	}
}

// fillRedis leaves no memory for anything new.
func fillRedis(s *site, r *rand.Rand) fault {
	sh, name := s.shard(r)
	return fault{
		Name: "redis full", Target: name, Hold: between(r, time.Second, 6*time.Second),
		Inject: func(context.Context) error {
			used, err := sh.server.Info("memory", "used_memory")
			if err != nil {
				return err
			}
			n, err := strconv.ParseInt(used, 10, 64)
			if err != nil {
				return err
			}
			return sh.server.Try("CONFIG", "SET", "maxmemory", max(n-(64<<10), 1))
		},
		Heal: func(context.Context) error { return sh.server.Try("CONFIG", "SET", "maxmemory", 0) },
	}
}

// makeRedisForget kills the server and removes the latest writes from its file, as appendfsync everysec with a slow
// disk would.
func makeRedisForget(s *site, r *rand.Rand) fault {
	sh, name := s.shard(r)
	forgotten := between(r, 500*time.Millisecond, 2*time.Second)
	return fault{
		Name: "redis forgot its last second", Target: name, Hold: between(r, 0, 3*time.Second),
		Inject: func(context.Context) error {
			forget := sh.server.Remember()
			time.Sleep(forgotten)
			forget()
			return nil
		},
		Heal: func(context.Context) error { sh.server.Restart(); return nil },
	}
}

func makeRedisLose(s *site, r *rand.Rand) fault {
	sh, name := s.shard(r)
	return fault{
		Name: "redis lost everything", Target: name, Hold: between(r, 0, 3*time.Second),
		Inject: func(context.Context) error { sh.server.Lose(); return nil },
		Heal:   func(context.Context) error { sh.server.Restart(); return nil },
	}
}

// flushRedis empties a server while it is running.
func flushRedis(s *site, r *rand.Rand) fault {
	sh, name := s.shard(r)
	return fault{
		Name: "redis flushed", Target: name,
		Inject: func(context.Context) error { return sh.server.Try("FLUSHALL") },
		Heal:   func(context.Context) error { return nil },
	}
}

// promote kills a server that has a replica. The replica gets its address at once, and refuses writes at first.
func promote(s *site, r *rand.Rand) fault {
	sh, name := s.shard(r)
	behind := r.IntN(2) == 0
	var replica *shard
	return fault{
		Name: "redis replica promoted", Target: name, Hold: between(r, 100*time.Millisecond, 4*time.Second),
		Inject: func(ctx context.Context) error {
			replica = s.newShard()
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			if err := replica.server.Follow(ctx, sh.server); err != nil {
				return fmt.Errorf("following: %w", err)
			}
			if behind { // it lags, and the writes that it has not received are lost
				replica.server.Pause()
				time.Sleep(500 * time.Millisecond)
			}
			sh.server.Kill9()
			if behind {
				replica.server.Resume()
			}
			sh.proxy.SetTarget(replica.server.Addr())
			return nil
		},
		Heal: func(context.Context) error {
			sh.server, sh.backups = replica.server, replica.backups
			return sh.server.Try("REPLICAOF", "NO", "ONE")
		},
	}
}

// network returns a kind of network fault between all processes and one shard.
func network(name string, trouble func(*rand.Rand) harness.Trouble) kind {
	return kind{name, func(s *site, r *rand.Rand) fault {
		sh, target := s.shard(r)
		t := trouble(r)
		return fault{
			Name: name, Target: target + " network", Hold: between(r, 500*time.Millisecond, 8*time.Second),
			Inject: func(context.Context) error { sh.proxy.Set(t); return nil },
			Heal:   func(context.Context) error { sh.proxy.Set(harness.Trouble{}); return nil },
		}
	}}
}
