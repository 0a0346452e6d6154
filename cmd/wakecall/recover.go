package main

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/reconcile"
)

const aboutRecover = `Recovers lost writes: compares the jobs that the journal accepted with those in the shards.
Missing jobs that were not delivered, dead or deleted are pushed again with their ids and due times,
deleted or delivered jobs that exist again are deleted, and changes are repeated. The redis-checker does
the same when a shard restarts. With several hosts, name the journals of all of them: otherwise jobs that
another host delivered are called again.`

func (p *program) recoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover", GroupID: groupCare, Short: "recover writes that a shard lost, from the journal",
		Long: aboutRecover,
	}
	since := cmd.Flags().Duration("since", 10*time.Minute, "how far back to read; 0 is the whole journal")
	dry := cmd.Flags().Bool("dry-run", false, "show what would be done, and do nothing")
	dirs := cmd.Flags().StringArray("journal", nil,
		"`DIR` of a journal; may be repeated (default: this host's)")
	shard := cmd.Flags().String("shard", "", "only jobs of the shard with this `NAME`")
	return p.addOutputFlag(p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		if *since < 0 {
			return usagef("--since %s must not be negative",
				printable.ShortDuration(*since))
		}
		o := reconcile.Options{Dirs: *dirs, Shard: *shard, DryRun: *dry}
		if *since > 0 {
			o.Since = p.now().Add(-*since)
		}
		report, err := app.Recover(ctx, cfg, version, log.New(cfg, p.err, "recover"), o)
		if err != nil {
			return err
		}
		return p.show(report, func(w io.Writer) error { return recoveryTable(w, &report, *dry) })
	}))
}

func recoveryTable(w io.Writer, r *reconcile.Report, dry bool) error {
	pairs := []string{}
	add := func(name string, n int) { pairs = append(pairs, name, strconv.Itoa(n)) }
	add("accepted", r.Jobs)
	add("  present", r.There)
	add("  delivered", r.Delivered)
	add("  dead", r.Dead)
	add("  deleted", r.Deleted)
	add("  missing", r.Missing)
	if !dry {
		add("pushed again", r.Pushed)
		add("changed again", r.Changed)
		add("dead jobs restored", r.Restored)
	}
	add("deleted again", r.Ended)
	if r.Schedules > 0 {
		add("schedules behind the journals", r.Schedules)
	}
	if r.Unknown > 0 {
		add("skipped: topic not registered", r.Unknown)
	}
	if r.Failed > 0 {
		add("refused", r.Failed)
	}
	if r.Torn > 0 {
		add("unreadable journal lines", r.Torn)
	}
	return fields(w, pairs...)
}
