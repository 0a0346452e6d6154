package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/pause"
)

func (p *program) topCommand() *cobra.Command {
	every := duration(2 * time.Second)
	rounds, rows := 0, 20
	cmd := &cobra.Command{
		Use: "top", GroupID: groupUse, Short: "show the topics whose ready jobs have waited longest, again and again",
		Args: noArgs,
	}
	cmd.Flags().Var(&every, "every", "pause between two readings: 2s, or a number of seconds")
	cmd.Flags().IntVar(&rounds, "rounds", 0, "end after this number of readings (default: until interrupted)")
	cmd.Flags().IntVar(&rows, "rows", rows, "number of topics to show")
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := refuseZero(cmd.Flags(), "every", "rounds", "rows"); err != nil {
			return err
		}
		for round := 1; ; round++ {
			all, err := allStats(ctx, c)
			if err != nil {
				return err
			}
			if err := p.showTop(all, rows, rounds != 1); err != nil || round == rounds {
				return err
			}
			if !pause.For(ctx, time.Duration(every)) {
				return nil
			}
		}
	})
	return p.addClientFlags(cmd)
}

// showTop prints the topics with the oldest ready jobs, then those with the most jobs. In a table, clear starts a new
// screen.
func (p *program) showTop(all []topicStats, rows int, clear bool) error {
	slices.SortStableFunc(all, func(a, b topicStats) int {
		return cmp.Or(cmp.Compare(b.OldestReadyMS, a.OldestReadyMS), cmp.Compare(b.Ready+b.Running, a.Ready+a.Running),
			cmp.Compare(b.Dead, a.Dead), cmp.Compare(b.Delayed, a.Delayed))
	})
	all = all[:min(len(all), rows)]
	return p.show(all, func(w io.Writer) error {
		if clear {
			fmt.Fprint(w, "\x1b[H\x1b[2J")
		}
		return statsTable(w, all)
	})
}
