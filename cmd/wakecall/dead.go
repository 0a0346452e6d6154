package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (p *program) deadCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "dead", GroupID: groupUse, Short: "list and re-drive dead jobs",
	}, p.deadListCommand(), p.deadRetryCommand())
}

func (p *program) deadListCommand() *cobra.Command {
	o := client.ListOptions{State: client.Dead}
	cmd := &cobra.Command{
		Use: "list TOPIC", Short: "list a topic's dead jobs", Args: exactArgs("TOPIC"),
		ValidArgsFunction: p.completeTopics,
	}
	p.addPageFlags(cmd, &o)
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return p.listJobs(ctx, c, cmd, args[0], o)
	})
	return p.addClientFlags(cmd)
}

func (p *program) deadRetryCommand() *cobra.Command {
	var s client.Selection
	cmd := &cobra.Command{
		Use: "retry TOPIC [ID...]", Short: "make dead jobs ready again, with attempts 0",
		Long: "Makes dead jobs of a topic ready again: those with the given ids, or with --limit the oldest.",
		Example: `  wakecall dead retry order.close order-42 order-43
  wakecall dead retry order.close --limit 1000`,
		ValidArgsFunction: p.completeTopics,
		Args: func(cmd *cobra.Command, args []string) error {
			return exactArgs("TOPIC")(cmd, args[:min(len(args), 1)])
		},
	}
	cmd.Flags().IntVar(&s.Limit, "limit", 0, "re-drive up to this number of jobs, those that died first")
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := refuseZero(cmd.Flags(), "limit"); err != nil {
			return err
		}
		if s.IDs = args[1:]; (len(s.IDs) == 0) == (s.Limit == 0) {
			return usagef("%s: ids or --limit is required, not both", cmd.CommandPath())
		}
		n, err := c.RetryDead(ctx, args[0], s)
		if err != nil {
			return err
		}
		return p.show(map[string]any{"topic": args[0], "count": n}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s of topic %s re-driven\n", printable.Count(n, "dead job"),
				printable.Line(args[0]))
			return err
		})
	})
	return p.addClientFlags(cmd)
}
