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
	filter := p.addDeadFlags(cmd)
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		o.Dead = filter()
		return p.listJobs(ctx, c, cmd, args[0], o)
	})
	return p.addClientFlags(cmd)
}

func (p *program) deadRetryCommand() *cobra.Command {
	var s client.Selection
	cmd := &cobra.Command{
		Use: "retry TOPIC [ID...]", Short: "make dead jobs ready again, with attempts 0",
		Long: "Makes dead jobs of a topic ready again: those with the given ids, or with --limit the oldest.\n" +
			"The filter is that of `wakecall dead list`, which shows the same jobs.",
		Example: `  wakecall dead retry order.close order-42 order-43
  wakecall dead retry order.close --status 503 --since 1h --limit 1000`,
		ValidArgsFunction: p.completeTopics,
		Args: func(cmd *cobra.Command, args []string) error {
			return exactArgs("TOPIC")(cmd, args[:min(len(args), 1)])
		},
	}
	cmd.Flags().IntVar(&s.Limit, "limit", 0, "re-drive up to this number of jobs, those that died first")
	filter := p.addDeadFlags(cmd)
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := refuseZero(cmd.Flags(), "limit"); err != nil {
			return err
		}
		if s.IDs = args[1:]; (len(s.IDs) == 0) == (s.Limit == 0) {
			return usagef("%s: ids or --limit is required, not both", cmd.CommandPath())
		}
		if s.Filter = filter(); s.Filter != nil && s.Limit == 0 {
			return usagef("%s: a filter needs --limit, not ids", cmd.CommandPath())
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

// addDeadFlags adds the flags of a filter. The returned function returns it, or nil without any of them.
func (p *program) addDeadFlags(cmd *cobra.Command) func() *client.DeadFilter {
	var f client.DeadFilter
	flags := cmd.Flags()
	flags.IntVar(&f.Status, "status", 0, "only jobs whose last answer had this status `CODE`")
	flags.StringVar(&f.Error, "error", "", "only jobs whose last error contains this `TEXT`")
	flags.StringVar(&f.Prefix, "prefix", "", "only jobs whose id begins with this `TEXT`")
	flags.StringVar(&f.Reason, "reason", "", "only jobs that died for this `REASON`, such as attempts or gone")
	since := flags.Duration("since", 0, "only jobs that died within this time, such as 1h")
	until := flags.Duration("until", 0, "only jobs that died longer ago than this, such as 10m")
	return func() *client.DeadFilter {
		if *since > 0 {
			f.Since = p.now().Add(-*since)
		}
		if *until > 0 {
			f.Until = p.now().Add(-*until)
		}
		if f == (client.DeadFilter{}) {
			return nil
		}
		return &f
	}
}
