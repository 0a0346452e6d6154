package main

import (
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/logging"
	"github.com/wakecall/wakecall/recovery"
)

const aboutRecover = `Compares what the journal says was accepted with what the shards hold. What is missing, and neither delivered nor dead nor deleted, is
pushed again under its own id and due time; what was deleted or delivered and lives again is deleted; changes are made again. The
redis-checker does the same by itself when a shard comes back. With several hosts name the journals of all of them, or jobs that
another host delivered are called a second time.`

func (a *cli) recoverCommand() *cobra.Command {
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
		report, err := app.Recover(cmd.Context(), cfg, version, logging.New(cfg, a.err, "recover"), o)
		if err != nil {
			return err
		}
		return a.show(report, func(w io.Writer) error { return recoveryTable(w, &report, *dry) })
	}
	return a.addOutputFlag(cmd)
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
