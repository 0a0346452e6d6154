package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// makeDataDir makes data_dir, readable by its owner only.
func makeDataDir(cfg *conf.Config) error {
	if err := os.MkdirAll(cfg.DataPath(), 0o700); err != nil {
		return fmt.Errorf("data_dir %s: %w; set data_dir to a directory that this user can write to", cfg.DataPath(), err)
	}
	if err := tryWrite(cfg.DataPath()); err != nil {
		return fmt.Errorf("data_dir %s: %w; give it to this user, or set data_dir to another", cfg.DataPath(), err)
	}
	return nil
}

// prepare does what the first start has to do: the schema is up to date already, the shards are seeded, the first token and user
// made. With the database away all that was done at an earlier start, or the registry could not have been opened.
func prepare(ctx context.Context, cfg *conf.Config, r *registry.Registry, log *slog.Logger) error {
	err := r.SeedShards(ctx, seedShards(cfg))
	if err == nil {
		var created []string
		created, err = r.Bootstrap(ctx, cfg.DataPath())
		for _, path := range created {
			log.Info("first start: made "+firstStartFile(path), "file", path)
		}
	}
	if errors.Is(err, registry.ErrUnavailable) {
		log.Warn("the registry's database does not answer; starting with its last snapshot", "error", err)
		return nil
	}
	return err
}

func firstStartFile(path string) string {
	if strings.HasSuffix(path, registry.TokenFile) {
		return "an API token with all rights"
	}
	return "the password of the web admin's user admin"
}

// checkPasswords refuses a start with a password that a Redis does not take: trying again would not help. A Redis that is away
// may come back, so it does not hinder.
func checkPasswords(ctx context.Context, cfg *conf.Config, shards []registry.Shard) error {
	q := queue.Open(queue.Options{Timeout: cfg.Redis.Timeout, PoolSize: 1, Buckets: cfg.Redis.Buckets})
	defer q.Close()
	var foreign []registry.Shard
	for _, s := range shards {
		if s.URL != registry.ManagedShard {
			foreign = append(foreign, s)
		}
	}
	if err := q.SetShards(ctx, shardConfigs(cfg, foreign)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Redis.Timeout)
	defer cancel()
	open := q.Shards()
	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, s := range open {
		wg.Go(func() {
			if _, _, err := s.Ping(ctx); err != nil && isPasswordError(err.Error()) {
				errs[i] = fmt.Errorf("%w. %s; `wakecall check` tries again", err, passwordAdvice)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

const passwordAdvice = "Correct the user and password in its URL (redis://USER:PASSWORD@HOST:PORT/0; special characters are percent-encoded)"

func isPasswordError(text string) bool {
	return strings.Contains(text, "WRONGPASS") || strings.Contains(text, "NOAUTH")
}
