package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (p *program) groupCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "group", GroupID: groupUse, Short: "show, cancel and move all jobs of a group",
		Long: "Shows, cancels and moves the jobs that were pushed with the same --group, in all topics of the token.",
	}, p.groupShowCommand(), p.groupCancelCommand(), p.groupMoveCommand())
}

func (p *program) groupShowCommand() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{Use: "show GROUP", Short: "count a group's jobs, and list them", Args: exactArgs("GROUP")}
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of jobs to list, 1 to 1000")
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := refuseZero(cmd.Flags(), "limit"); err != nil {
			return err
		}
		g, err := c.Group(ctx, args[0], limit)
		if err != nil {
			return err
		}
		return p.show(g, func(w io.Writer) error { return groupTable(w, g, p.now()) })
	})
	return p.addClientFlags(cmd)
}

func groupTable(w io.Writer, g *client.Group, now time.Time) error {
	n := g.Counts
	err := fields(w, "group", g.Name, "closed until", describe.InstantOf(g.ClosedUntil, now),
		"delayed", strconv.Itoa(n.Delayed), "ready", strconv.Itoa(n.Ready), "running", strconv.Itoa(n.Running),
		"dead", strconv.Itoa(n.Dead))
	if err != nil || len(g.Jobs) == 0 {
		return err
	}
	fmt.Fprintln(w)
	titles := []string{"TOPIC", "ID", "STATE", "DUE", "ATTEMPTS", "REASON"}
	err = table(w, titles, g.Jobs, func(j client.Job) []string {
		return []string{
			j.Topic, j.ID, j.State, describe.Instant(j.DueAt, now), strconv.Itoa(j.Attempts), j.DeadReason,
		}
	})
	if left := n.Delayed + n.Ready + n.Running + n.Dead - len(g.Jobs); err == nil && left > 0 {
		_, err = fmt.Fprintf(w, "%s not listed: set --limit\n", printable.Count(left, "more job"))
	}
	return err
}

func (p *program) groupCancelCommand() *cobra.Command {
	var closeFor duration
	cmd := &cobra.Command{
		Use: "cancel GROUP", Short: "delete a group's waiting and dead jobs",
		Long: "Deletes the waiting and dead jobs of a group: no callback of them starts afterwards.\n" +
			"Running ones end, and are not retried. With --close, pushes into the group are refused for that time.",
		Args: exactArgs("GROUP"),
	}
	cmd.Flags().Var(&closeFor, "close", "refuse pushes into the group for this time, 1s to 720h")
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := refuseZero(cmd.Flags(), "close"); err != nil {
			return err
		}
		done, err := c.CancelGroup(ctx, args[0], time.Duration(closeFor))
		if err != nil {
			return err
		}
		return p.show(done, func(w io.Writer) error { return showCancelled(w, args[0], done) })
	})
	return p.addClientFlags(cmd)
}

func showCancelled(w io.Writer, name string, done *client.GroupCancelled) error {
	fmt.Fprintf(w, "%s of group %s deleted\n", printable.Count(done.Deleted, "job"), printable.Line(name))
	if done.Running > 0 {
		fmt.Fprintf(w, "%s: not interrupted, and not retried\n", printable.Count(done.Running, "running job"))
	}
	if len(done.Pending) > 0 {
		fmt.Fprintf(w, "not answering: %s; the group's jobs there are deleted before it is used again, or within 2s\n",
			printable.Line(strings.Join(done.Pending, ", ")))
	}
	return nil
}

func (p *program) groupMoveCommand() *cobra.Command {
	var delay, shift duration
	var due, key string
	cmd := &cobra.Command{
		Use: "move GROUP", Short: "move a group's delayed and ready jobs to another due time",
		Long: "Moves the delayed and ready jobs of a group: with --shift each by the same time, otherwise all to\n" +
			"one. Running and dead jobs, and those that would expire before, are skipped.",
		Args: exactArgs("GROUP"),
	}
	flags := cmd.Flags()
	flags.Var(&delay, "delay", "call back after this time from now: 90s, 30m, or a number of seconds")
	flags.StringVar(&due, "due", "", "call back at this `TIME`: RFC 3339, or Unix milliseconds")
	flags.Var(&shift, "shift", "call back this much later than now planned, or earlier: 1h, -15m")
	flags.StringVar(&key, "key", "",
		"with --shift: a repeated command with the same `KEY` moves each job once, within a day (default: generated)")
	cmd.RunE = p.withKey(func(ctx context.Context, c *client.Client, args []string, generate func() string) error {
		m, err := moveOf(flags, delay, shift, due, key)
		if err != nil {
			return err
		}
		if m.Shift != 0 && m.Key == "" {
			m.Key = generate()
		}
		n, err := c.MoveGroup(ctx, args[0], m)
		if err != nil {
			return err
		}
		return p.say(n, "%s of group %s moved, %d skipped", printable.Count(n.Moved, "job"), printable.Line(args[0]),
			n.Skipped)
	})
	return p.addClientFlags(cmd)
}

func moveOf(flags *pflag.FlagSet, delay, shift duration, due, key string) (m client.GroupMove, err error) {
	if err := refuseZero(flags, "due", "shift", "key"); err != nil {
		return m, err
	}
	given := 0
	for _, name := range []string{"delay", "due", "shift"} {
		if flags.Changed(name) {
			given++
		}
	}
	switch {
	case given != 1:
		return m, usagef("set one of --delay, --due and --shift")
	case key != "" && shift == 0:
		return m, usagef("--key is for --shift")
	}
	if flags.Changed("delay") {
		m.Delay = (*time.Duration)(&delay)
	}
	m.Shift, m.Key = time.Duration(shift), key
	m.DueAt, err = parseDue(due)
	return m, err
}

// withKey is withClient for a request that must not be done twice. A key that run generates is added to an error after
// which nobody knows whether the jobs were moved, or a task started: a command with another key would do it once more.
func (p *program) withKey(
	run func(ctx context.Context, c *client.Client, args []string, generate func() string) error,
) func(*cobra.Command, []string) error {
	key := ""
	generate := func() string {
		key = rand.Text()
		return key
	}
	command := p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return run(ctx, c, args, generate)
	})
	return func(cmd *cobra.Command, args []string) error {
		err := command(cmd, args)
		e, ok := errors.AsType[*client.Error](err)
		if err == nil || key == "" || ok && e.Status < http.StatusInternalServerError {
			return err
		}
		return fmt.Errorf("%w. To repeat it without doing it twice, add %s", err, printable.Command("--key", key))
	}
}
