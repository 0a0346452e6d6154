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
	r, err := registry.Open(registry.Options{DSN: dsn, Logger: slog.New(slog.DiscardHandler)})
	switch {
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
	return append(findings, checkKey(cfg, s)...), PlannedShards(ctx, cfg, r)
}

// checkKey checks that this host has the secret key of the registry. It does not create one.
func checkKey(cfg *conf.Config, s *registry.Snapshot) []Finding {
	const what = "secret-key"
	key, from, err := sealKey(cfg, false)
	if err == nil && key == nil {
		return nil // the first start creates it
	}
	if err == nil {
		err = s.CheckKey(key)
	}
	if err != nil {
		return []Finding{failedErr(what, err, "Copy the key from another host, and restart")}
	}
	return []Finding{fine(what, "%s is the key of the registry", from)}
}
