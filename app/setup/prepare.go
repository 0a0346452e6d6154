package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Prepare creates data_dir, the registry's schema and what a first start needs, and returns the registered shards. It
// first checks everything that could make the start fail, so that a mistake in redis.nodes is not stored in the
// registry.
func Prepare(ctx context.Context, cfg *conf.Config, log *slog.Logger) ([]registry.Shard, error) {
	if err := certificatesError(cfg); err != nil {
		return nil, err
	}
	if _, err := SignIn(cfg); err != nil { // the admin would crash in a loop
		return nil, err
	}
	if err := MakeDataDir(cfg); err != nil {
		return nil, err
	}
	WarnOpenDir(cfg, log)
	if err := journal.CheckFormat(cfg.JournalDir()); err != nil {
		return nil, err
	}
	r, err := OpenRegistry(cfg, log, registry.MigrateOlder, nil)
	if err != nil {
		return nil, ExplainRegistry(cfg, err)
	}
	defer r.Close()
	if err := othersRedis(cfg, r.Snapshot().Shards); err != nil {
		return nil, err
	}
	planned := PlannedShards(ctx, cfg, r)
	if IsManaged(planned) {
		if f := checkRedisBinary(ctx, "redis-server", cfg.Redis.Binary); f.Verdict == Failed {
			return nil, fmt.Errorf("%s. %s", f.Detail, f.Advice)
		}
	}
	if _, err := TryShards(ctx, cfg, planned); err != nil {
		return nil, err
	}
	if err := Seed(ctx, cfg, r, log); err != nil {
		return nil, err
	}
	shards := r.Snapshot().Shards
	if len(shards) == 0 {
		log.Warn(noShard + ". " + addingShard)
	}
	return shards, nil
}

// othersRedis returns an error if another host has registered its managed redis-server: the two hosts would share a
// registry, but neither could reach the other's jobs.
func othersRedis(cfg *conf.Config, registered []registry.Shard) error {
	if strings.HasPrefix(cfg.RegistryDSN().Reveal(), "sqlite:") || !IsManaged(registered) {
		return nil
	}
	_, err := os.Stat(cfg.RedisDir())
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return fmt.Errorf(
		"shard %q in the registry is a redis-server run by the master of another host, and this host has no %s. "+
			"Several hosts need a Redis that all of them can reach: register it with `wakecall shard add redis-1 "+
			"--url redis://…`, drain %[1]q and delete it. If this host replaces the other one, copy its %[2]s here; "+
			"to start with an empty one, create the directory",
		"managed", cfg.RedisDir(),
	)
}

// Seed registers the shards of redis.nodes and creates the first API token and admin user, unless an earlier start did
// so. While the database is unavailable, a start continues with the last snapshot, if that contains anything to serve.
func Seed(ctx context.Context, cfg *conf.Config, r *registry.Registry, log *slog.Logger) error {
	for try := 1; ; try++ {
		err := seedOnce(ctx, cfg, r, log)
		if !errors.Is(err, registry.ErrUnavailable) {
			return err
		}
		if last := r.Snapshot(); last.Topics.Len()+len(last.Tokens) > 0 {
			log.Warn("registry's database unavailable; starting with the last snapshot", "error", err)
			return nil
		}
		if try == seedTries {
			return fmt.Errorf("first start: %w", err)
		}
		log.Warn("registry's database unavailable; retrying", "error", err)
	}
}

// seedTries is how often a first start tries a database that does not answer in time, as on a busy machine.
const seedTries = 3

func seedOnce(ctx context.Context, cfg *conf.Config, r *registry.Registry, log *slog.Logger) error {
	if len(r.Snapshot().Shards) == 0 {
		shards, err := checkSeed(ctx, cfg)
		if err != nil {
			return err
		}
		if err := r.SeedShards(ctx, shards); err != nil {
			return err
		}
	}
	created, err := r.Bootstrap(ctx, cfg.DataDir, cfg.Server.FirstToken.Reveal(),
		account.CreateFirst(cfg.Admin.FirstPassword.Reveal()))
	for _, path := range created {
		log.Info("first start: created "+firstStartFile(path), "file", path)
	}
	return err
}

func firstStartFile(path string) string {
	if strings.HasSuffix(path, registry.TokenFile) {
		return "an API token with all rights"
	}
	return "the password of the user admin of the web admin"
}

// TryShards returns as rejected the errors of each Redis that rejects its password or has data in another format,
// because retrying would not help. A Redis that does not answer may come back, so its error is returned as silent.
func TryShards(ctx context.Context, cfg *conf.Config, shards []registry.Shard) (silent, err error) {
	var foreign []registry.Shard
	for _, s := range shards {
		if s.URL != registry.ManagedShard {
			foreign = append(foreign, s)
		}
	}
	q, err := OpenQueue(ctx, cfg, foreign)
	if err != nil {
		_ = q.Close()
		return nil, err
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(ctx, cfg.Redis.Timeout)
	defer cancel()
	open := q.Shards.All()
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, s := range open {
		wg.Go(func() {
			if _, _, errs[i] = s.Ping(ctx); errs[i] == nil {
				errs[i] = s.CheckFormat(ctx)
			}
		})
	}
	wg.Wait()
	for _, e := range errs {
		switch {
		case errors.Is(e, store.ErrFormat):
			err = errors.Join(err, e)
		case e != nil && isPasswordError(e.Error()):
			err = errors.Join(err, fmt.Errorf("%w. %s; `wakecall check` tries again", e, passwordAdvice))
		default:
			silent = errors.Join(silent, e)
		}
	}
	return silent, err
}

const passwordAdvice = "Correct the user and password in its URL " +
	"(redis://USER:PASSWORD@HOST:PORT/0; special characters are percent-encoded)"

func isPasswordError(text string) bool {
	return strings.Contains(text, "WRONGPASS") || strings.Contains(text, "NOAUTH")
}
