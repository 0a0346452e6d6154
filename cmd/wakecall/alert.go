package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
)

func (p *program) alertCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "alert", GroupID: groupUse, Short: "list, acknowledge and mute alerts",
	}, p.alertListCommand(), p.alertAckCommand(), p.alertMuteCommand(), p.alertUnmuteCommand())
}

func (p *program) alertListCommand() *cobra.Command {
	ended := false
	cmd := &cobra.Command{
		Use: "list", Short: "list the open alerts, most severe first", Args: noArgs,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			alerts, err := c.Alerts(ctx)
			if err != nil {
				return err
			}
			alerts = slices.DeleteFunc(alerts, func(a client.Alert) bool { return a.EndedAt != nil && !ended })
			return p.show(append([]client.Alert{}, alerts...), func(w io.Writer) error {
				if len(alerts) == 0 {
					_, err := fmt.Fprintln(w, "no alerts")
					return err
				}
				return alertTable(w, alerts, p.now())
			})
		}),
	}
	cmd.Flags().BoolVar(&ended, "ended", false, "also those that ended last")
	return p.addClientFlags(cmd)
}

func alertTable(w io.Writer, alerts []client.Alert, now time.Time) error {
	titles := []string{"ID", "SEVERITY", "SINCE", "STATE", "TITLE", "DETAILS"}
	return table(w, titles, alerts, func(a client.Alert) []string {
		return []string{
			strconv.FormatUint(a.ID, 10), a.Severity, describe.Instant(a.BeganAt, now), describe.AlertState(a, now),
			a.Title,
			strings.Join(a.Details, "; "),
		}
	})
}

func (p *program) alertAckCommand() *cobra.Command {
	reason := ""
	cmd := p.alertAction("ack", "acknowledge alerts: no more messages until they get worse or end", "acknowledged",
		func(ctx context.Context, c *client.Client, id uint64) error { return c.AckAlert(ctx, id, reason) })
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the others on call (required)")
	return cmd
}

func (p *program) alertMuteCommand() *cobra.Command {
	reason, length := "", duration(time.Hour)
	cmd := p.alertAction("mute", "mute alerts for a time, even if they end and open again", "muted",
		func(ctx context.Context, c *client.Client, id uint64) error {
			return c.MuteAlert(ctx, id, reason, time.Duration(length))
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the others on call (required)")
	cmd.Flags().Var(&length, "for", "how long: 2h, or a number of seconds")
	return cmd
}

func (p *program) alertUnmuteCommand() *cobra.Command {
	return p.alertAction("unmute", "undo an acknowledgement or a mute", "unmuted",
		func(ctx context.Context, c *client.Client, id uint64) error { return c.UnmuteAlert(ctx, id) })
}

// alertAction is a command on one or more alerts. It skips alerts that have ended in the meantime.
func (p *program) alertAction(
	name, short, done string, do func(ctx context.Context, c *client.Client, id uint64) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " ID...", Short: short, ValidArgsFunction: p.completeAlerts,
		Args: func(cmd *cobra.Command, args []string) error { return exactArgs("ID")(cmd, args[:min(len(args), 1)]) },
	}
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if f := cmd.Flags().Lookup("reason"); f != nil && f.Value.String() == "" {
			return usagef("--reason is required: say why, for the others on call")
		}
		var errs []error
		for _, arg := range args {
			id, err := strconv.ParseUint(arg, 10, 63)
			if err != nil {
				return usagef("%q must be the id of an alert; `wakecall alert list` shows them", arg)
			}
			if err := do(ctx, c, id); err != nil {
				errs = append(errs, err)
				continue
			}
			if err := p.say(map[string]any{"alert": id, "done": done}, "alert %d %s", id, done); err != nil {
				return err
			}
		}
		return errors.Join(errs...)
	})
	return p.addClientFlags(cmd)
}
