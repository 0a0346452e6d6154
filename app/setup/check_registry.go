package setup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// checkRegistry checks the registry's database and its schema. It returns the shards that a start would use, if it can
// read them.
func checkRegistry(ctx context.Context, cfg *conf.Config) ([]Finding, []registry.Shard) {
	const what = "registry"
	dsn := cfg.RegistryDSN().Reveal()
	shown := address.Mask(dsn)
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return []Finding{fine(what, "%s will be created by the first start", path)}, seedShards(cfg)
		}
	}
	key, from, keyErr := sealKey(cfg, false)
	r, err := registry.Open(registry.Options{DSN: dsn, Logger: slog.New(slog.DiscardHandler), SecretKey: key})
	switch {
	case errors.Is(err, registry.ErrOtherKey):
		return []Finding{failedErr("secret-key", err, adviceOnKey)}, seedShards(cfg)
	case errors.Is(err, registry.ErrSchemaOlder):
		return []Finding{warn(what, printable.Error(err), "`wakecall up` does so automatically")}, seedShards(cfg)
	case errors.Is(err, registry.ErrSchemaNewer), errors.Is(err, registry.ErrUnreleased):
		return []Finding{failedErr(what, err, "")}, seedShards(cfg)
	case err != nil:
		return []Finding{failedErr(what, err, adviceOnDatabase(cfg, err))}, seedShards(cfg)
	}
	defer r.Close()
	steps, err := r.DB().Migrations(ctx)
	if err != nil {
		return []Finding{failedErr(what, err, "")}, seedShards(cfg)
	}
	s := r.Snapshot()
	findings := []Finding{fine(what, "%s answers; schema %d, %s, %s", shown, steps[len(steps)-1].Version,
		printable.Count(s.Topics.Len(), "topic"), printable.Count(len(s.Shards), "shard"))}
	return append(findings, checkKey(s, key, from, keyErr)...), PlannedShards(ctx, cfg, r)
}

const adviceOnKey = "Copy the key from another host, and restart"

// checkKey checks that this host has the secret key of the registry. from is where the key is, and err why it is not.
func checkKey(s *registry.Snapshot, key seal.Key, from string, err error) []Finding {
	const what = "secret-key"
	if err == nil && key == nil {
		return nil // the first start creates it
	}
	if err == nil {
		err = s.CheckKey(key)
	}
	if err != nil {
		return []Finding{failedErr(what, err, adviceOnKey)}
	}
	return []Finding{fine(what, "%s is the key of the registry", from)}
}
