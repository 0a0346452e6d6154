package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/registry"
)

// Import imports topics and jobs from another system. o must contain the Source and the options of the command line.
func Import(
	ctx context.Context, cfg *conf.Config, version string, log *slog.Logger, o importer.Options,
) (report importer.Report, err error) {
	p, err := openParts(ctx, cfg, "import", version, log, registry.MigrateEmpty)
	if err != nil {
		return report, setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	o.Registry, o.Jobs, o.Journal, o.Logger = p.editedRegistry(), p.queue, cfg.JournalDir(), p.log
	return importer.Run(ctx, o)
}
