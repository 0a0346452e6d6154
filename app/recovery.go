package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/printable"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/recovery"
)

// newKeeper compares the journal with shards that come back, and has the checker tell what that found.
func (p *parts) newKeeper(c *checker.Checker) (*recovery.Keeper, error) {
	return recovery.NewKeeper(recovery.KeeperOptions{
		Dir: p.cfg.JournalDir(), Shards: shardsAs(p.queue, func(s *queue.Shard) recovery.Shard { return s }), Changed: p.again,
		Queue: p.queue, Ready: p.queue.Ready, Topic: p.hasTopic, Told: func(shard string, r recovery.Report, err error) { c.Restarted(shard, restartText(&r, err)) },
		Logger: p.log, Registerer: p.metrics,
	})
}

func restartText(r *recovery.Report, err error) string {
	switch {
	case err != nil:
		return "another server answers, and the journal could not be compared with what it holds: " + printable.Error(err)
	case r.Quiet():
		return fmt.Sprintf("another server answers; the journal was compared with what it holds, and nothing was lost (%d jobs)", r.Jobs)
	}
	return fmt.Sprintf("another server answers, and had forgotten something: %d jobs were pushed again, %d deleted again, %d changed again, %d dead ones restored; %d refused",
		r.Pushed, r.Ended, r.Changed, r.Restored, r.Failed+r.Unknown)
}

func (p *parts) hasTopic(name string) bool {
	_, ok := p.registry.Snapshot().Topics[name]
	return ok
}

// Recover compares journals with what the shards hold, and pushes again what they lost. A nil o.Dirs is this installation's.
func Recover(ctx context.Context, cfg *conf.Config, version string, log *slog.Logger, o recovery.Options) (report recovery.Report, err error) {
	if len(o.Dirs) == 0 {
		o.Dirs = []string{cfg.JournalDir()}
	}
	for _, dir := range o.Dirs {
		if _, err := os.Stat(dir); err != nil {
			return report, fmt.Errorf("there is no journal: %w (--journal and --data-dir name other places)", err)
		}
	}
	p, err := openParts(ctx, cfg, "recover", version, log)
	if err != nil {
		return report, ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, h := range p.queue.Health(ctx) {
		if !h.Up {
			return report, fmt.Errorf("shard %s does not answer: %s; its jobs would be taken for lost (set it offline, or name another with --shard)", h.Name, h.Err)
		}
	}
	o.Queue, o.Topic, o.Logger = p.queue, p.hasTopic, p.log
	return recovery.Recover(ctx, o)
}
