package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/recovery"
	"github.com/wakecall/wakecall/setup"
)

// Recover recovers lost writes from the journals in o.Dirs, or from this installation's.
func Recover(
	ctx context.Context, cfg *conf.Config, version string, log *slog.Logger, o recovery.Options,
) (report recovery.Report, err error) {
	if len(o.Dirs) == 0 {
		o.Dirs = []string{cfg.JournalDir()}
	}
	for _, dir := range o.Dirs {
		if _, err := os.Stat(dir); err != nil {
			return report, fmt.Errorf("there is no journal: %w (--journal and --data-dir name another)", err)
		}
	}
	p, err := openParts(ctx, cfg, "recover", version, log)
	if err != nil {
		return report, setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, h := range p.queue.Health(ctx) {
		if !h.Up {
			return report, fmt.Errorf("shard %s does not answer: %s; its jobs would count as lost "+
				"(set it offline, or name another with --shard)", h.Name, h.Err)
		}
	}
	o.Shards, o.Topic, o.Logger = shardsAs(p.queue, func(s *queue.Shard) recovery.Shard { return s })(), p.hasTopic, p.log
	return recovery.Recover(ctx, o)
}
