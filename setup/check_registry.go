package setup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/database"
	"github.com/wakecall/wakecall/printable"
	"github.com/wakecall/wakecall/registry"
)

// checkRegistry checks the registry's database and its schema. The snapshot is nil if it cannot be read.
func checkRegistry(ctx context.Context, cfg *conf.Config) ([]Finding, *registry.Snapshot) {
	const what = "registry"
	dsn := cfg.RegistryDSN().Reveal()
	shown := database.MaskDSN(dsn)
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return []Finding{fine(what, "%s is created at the first start", path)}, nil
		}
	}
	r, err := registry.Open(registry.Options{DSN: dsn, Logger: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, registry.ErrSchemaOlder):
		return []Finding{warn(what, printable.Error(err), "`wakecall up` does that by itself")}, nil
	case errors.Is(err, registry.ErrSchemaNewer):
		return []Finding{failedErr(what, err, "")}, nil
	case err != nil:
		return []Finding{failedErr(what, err, adviceOnDatabase(cfg, err))}, nil
	}
	defer r.Close()
	steps, err := r.DB().Migrations(ctx)
	if err != nil {
		return []Finding{failedErr(what, err, "")}, nil
	}
	s := r.Snapshot()
	return []Finding{fine(what, "%s answers; schema %d, %s, %s", shown, steps[len(steps)-1].Version,
		printable.Count(s.Topics.Len(), "topic"), printable.Count(len(s.Shards), "shard"))}, s
}
