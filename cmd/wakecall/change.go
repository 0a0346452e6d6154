package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (p *program) changeCommand() *cobra.Command {
	var delay duration
	var due, body, priority string
	cmd := &cobra.Command{
		Use: "change TOPIC ID", GroupID: groupUse, Short: "change a delayed or ready job",
		Example: `  wakecall change order.close order-42 --delay 1h
  wakecall change order.close order-42 --priority high --body '{"order":42}'`,
		Args: exactArgs("TOPIC", "ID"), ValidArgsFunction: p.completeTopics,
	}
	flags := cmd.Flags()
	flags.Var(&delay, "delay", "call back after this time from now: 90s, 30m, or a number of seconds")
	flags.StringVar(&due, "due", "", "call back at this `TIME`: RFC 3339, or Unix milliseconds")
	flags.StringVar(&priority, "priority", "", "high, normal or low")
	flags.StringVar(&body, "body", "", "the job's new body, in JSON")
	complete(cmd, "priority", client.High, client.Normal, client.Low)
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := refuseZero(flags, "due", "priority", "body"); err != nil {
			return err
		}
		change := client.Change{Priority: priority}
		switch at, err := parseDue(due); {
		case err != nil:
			return err
		case flags.Changed("delay") && due != "":
			return usagef("--delay and --due cannot be used together")
		case flags.Changed("delay"):
			change.Delay = (*time.Duration)(&delay)
		case due != "":
			change.DueAt = &at
		case priority == "" && body == "":
			return usagef("nothing to change: set --delay, --due, --priority or --body")
		}
		if body != "" {
			if change.Body = json.RawMessage(body); !json.Valid(change.Body) {
				return usagef("the body must be JSON: %q", printable.Clip(body, clipAt))
			}
		}
		job, err := c.Change(ctx, args[0], args[1], change)
		if err != nil {
			return err
		}
		return p.showJob(job)
	})
	return p.addClientFlags(cmd)
}
