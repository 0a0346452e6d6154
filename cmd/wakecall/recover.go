package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/conf"
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
		return "another server answers, and the journal could not be compared with what it holds: " + oneLine(err)
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

const aboutRecover = `Compares what the journal says was accepted with what the shards hold. What is missing, and neither delivered nor dead nor deleted, is
pushed again under its own id and due time; what was deleted or delivered and lives again is deleted; changes are made again. The
redis-checker does the same by itself when a shard comes back. With several hosts name the journals of all of them, or jobs that
another host delivered are called a second time.`

func (a *app) recoverCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "recover", GroupID: groupCare, Short: "push again what a shard has forgotten, from the journal", Args: noArgs, Long: aboutRecover}
	since := cmd.Flags().Duration("since", 10*time.Minute, "how far back to look; 0 is everything that the journal has")
	dry := cmd.Flags().Bool("dry-run", false, "only say what would be done")
	dirs := cmd.Flags().StringArray("journal", nil, "`DIR` of a journal, once for each host (default: this installation's)")
	shard := cmd.Flags().String("shard", "", "only what the shard of this `NAME` had accepted")
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.load(s)
		if err != nil {
			return err
		}
		o := recovery.Options{Dirs: *dirs, Shard: *shard, DryRun: *dry}
		if *since > 0 {
			o.Since = a.now().Add(-*since)
		}
		report, err := a.recover(cmd.Context(), cfg, o)
		if err != nil {
			return err
		}
		return a.show(report, func(w io.Writer) error { return recoveryTable(w, &report, *dry) })
	}
	return a.addOutputFlag(cmd)
}

func (a *app) recover(ctx context.Context, cfg *conf.Config, o recovery.Options) (report recovery.Report, err error) {
	if len(o.Dirs) == 0 {
		o.Dirs = []string{cfg.JournalDir()}
	}
	for _, dir := range o.Dirs {
		if _, err := os.Stat(dir); err != nil {
			return report, fmt.Errorf("there is no journal: %w (--journal and --data-dir name other places)", err)
		}
	}
	p, err := openParts(ctx, cfg, "recover", newLogger(cfg, a.err, "recover"))
	if err != nil {
		return report, adviseOnRegistry(cfg, err)
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

func recoveryTable(w io.Writer, r *recovery.Report, dry bool) error {
	pairs := []string{}
	add := func(name string, n int) { pairs = append(pairs, name, strconv.Itoa(n)) }
	add("accepted", r.Jobs)
	add("  there", r.There)
	add("  delivered", r.Delivered)
	add("  dead", r.Dead)
	add("  deleted", r.Deleted)
	add("  missing", r.Missing)
	if !dry {
		add("pushed again", r.Pushed)
		add("changed again", r.Changed)
		add("dead ones restored", r.Restored)
	}
	add("lived again though ended", r.Ended)
	if r.Unknown > 0 {
		add("left out: topic not registered", r.Unknown)
	}
	if r.Failed > 0 {
		add("refused", r.Failed)
	}
	if r.Torn > 0 {
		add("unreadable lines of the journal", r.Torn)
	}
	return fields(w, pairs...)
}
