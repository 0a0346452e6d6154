package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Recover recovers lost writes from the journals in o.Dirs, or from this installation's journal.
func Recover(
	ctx context.Context, cfg *conf.Config, version string, log *slog.Logger, o reconcile.Options,
) (report reconcile.Report, err error) {
	if len(o.Dirs) == 0 {
		o.Dirs = []string{cfg.JournalDir()}
	}
	for _, dir := range o.Dirs {
		if _, err := os.Stat(dir); err != nil {
			return report, fmt.Errorf("no journal: %w (set --journal or --data-dir)", err)
		}
	}
	p, err := openParts(ctx, cfg, "recover", version, log, registry.MigrateEmpty)
	if err != nil {
		return report, setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := allAnswer(p.queue.Health(ctx), o.Shard); err != nil {
		return report, err
	}
	o.Shards, o.Topic, o.Logger = p.queue.Shards.All(), p.hasTopic, p.log
	o.ScheduleHome = p.scheduleHome
	return reconcile.Recover(ctx, o)
}

// scheduleHome returns the shard that a schedule has, or will get, in place of one that is no longer in use.
func (p *parts) scheduleHome(topic, name string) *store.Shard {
	shard := p.shardOf(name)
	if shard == "" {
		return nil
	}
	if s := p.queue.Shards.Named(shard); s != nil {
		return s
	}
	s, _ := p.queue.HomeOf(topic, name) // all shards answer
	return s
}

// allAnswer returns an error if a shard to be compared is down: the shard only or, if that is empty, any shard.
func allAnswer(shards []store.ShardHealth, only string) error {
	var names []string
	for _, h := range shards {
		names = append(names, h.Name)
		if !h.Up && (only == "" || only == h.Name) {
			return fmt.Errorf("shard %s does not answer: %s; all its jobs would count as lost "+
				"(take it offline, or select others with --shard)", h.Name, h.Err)
		}
	}
	if only != "" && !slices.Contains(names, only) {
		return fmt.Errorf("no shard %q in use; shards in use: %s", only, strings.Join(names, ", "))
	}
	return nil
}
