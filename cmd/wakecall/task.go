package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
)

func (p *program) taskCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "task", GroupID: groupUse, Short: "act on all jobs that match a filter, in the background",
		Long: "A task runs, re-drives, deletes, shifts or changes all jobs that match a filter, each once,\n" +
			"through restarts of the servers.",
	}, p.taskStartCommand(), p.taskListCommand(),
		p.onTask("show", "show a task and its progress", (*client.Client).Task),
		p.onTask("cancel", "cancel a task; what it has done stays", (*client.Client).CancelTask))
}

func (p *program) taskStartCommand() *cobra.Command {
	var t client.TaskStart
	var change client.TaskChange
	cmd := &cobra.Command{
		Use: "start ACTION", Short: "start a task: run, retry, delete, shift or change",
		Long: "Starts a task, and returns at once; `wakecall task show` tells its progress. run makes delayed jobs\n" +
			"due now, retry re-drives dead ones, delete deletes jobs of any of these states, shift moves the due\n" +
			"time of delayed or ready ones by --by, change gives them --due or --priority.",
		Example: `  wakecall task start retry --topic shop.orders --error timeout --rate 50 --stop-above 0.2
  wakecall task start shift --topic 'shop.*' --state delayed --due-before 2026-12-01T00:00:00Z --by 1h`,
		Args: exactArgs("ACTION"), ValidArgs: []string{"run", "retry", "delete", "shift", "change"},
	}
	flags := cmd.Flags()
	flags.StringVar(&t.Filter.Topic, "topic", "", "jobs of this topic, or of a `PATTERN` such as shop.* (required)")
	flags.StringVar(&t.Filter.State, "state", "", "jobs in this state: delayed, ready or dead")
	flags.StringVar(&t.Filter.IDPrefix, "id-prefix", "", "jobs whose id begins with this")
	flags.StringVar(&t.Filter.Error, "error", "", "jobs whose last error contains this")
	flags.IntVar(&t.Filter.Status, "status", 0, "jobs whose last answer had this status")
	flags.StringVar(&t.Filter.Reason, "reason", "", "jobs that are dead for this reason")
	flags.Var(instant{&t.Filter.DueAfter}, "due-after", "waiting jobs due at this `TIME` or later")
	flags.Var(instant{&t.Filter.DueBefore}, "due-before", "waiting jobs due before this `TIME`")
	flags.Var(instant{&t.Filter.Since}, "since", "jobs that died at this `TIME` or later")
	flags.Var(instant{&t.Filter.Until}, "until", "jobs that died before this `TIME`")
	flags.Var((*duration)(&t.By), "by", "with shift: 1h, or -15m")
	flags.Var(instant{&change.DueAt}, "due", "with change: the new due `TIME`, RFC 3339 or Unix milliseconds")
	flags.StringVar(&change.Priority, "priority", "", "with change: high, normal or low")
	flags.Float64Var(&t.Rate, "rate", 0, "jobs per second (default: no limit)")
	flags.Float64Var(&t.StopAbove, "stop-above", 0,
		"with retry: go on in stages, and stop if more than this share fails again")
	flags.BoolVar(&t.DryRun, "dry-run", false, "only count the matching jobs")
	flags.StringVar(&t.Key, "key", "", "repeated commands with the same `KEY` start one task (default: generated)")
	complete(cmd, "state", "delayed", "ready", "dead")
	complete(cmd, "priority", "high", "normal", "low")
	completeBy(cmd, "topic", p.completeMoreTopics)
	cmd.RunE = p.withKey(func(ctx context.Context, c *client.Client, args []string, generate func() string) error {
		err := refuseZero(flags, "topic", "state", "id-prefix", "error", "status", "reason", "by", "priority", "rate",
			"stop-above", "key")
		if err != nil {
			return err
		}
		if t.Action = args[0]; change != (client.TaskChange{}) {
			t.Change = &change
		}
		if t.Key == "" {
			t.Key = generate()
		}
		task, err := c.StartTask(ctx, t)
		if err != nil {
			return err
		}
		return p.say(task, "task %s has started; `%s` tells its progress", task.ID,
			printable.Command("wakecall task show", task.ID))
	})
	return p.addClientFlags(cmd)
}

// instant is a flag with a time, which is nil unless the flag is given.
type instant struct{ at **time.Time }

func (i instant) String() string { return "" }

// Type returns the name of the value in the help.
func (i instant) Type() string { return "TIME" }

// Set parses the flag.
func (i instant) Set(text string) error {
	t, err := registry.ParseInstant(text)
	*i.at = &t
	return err
}

func (p *program) taskListCommand() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{Use: "list", Short: "list the tasks, newest first", Args: noArgs}
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of tasks, 1 to 1000")
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := refuseZero(cmd.Flags(), "limit"); err != nil {
			return err
		}
		list, err := c.Tasks(ctx, limit)
		if err != nil {
			return err
		}
		return p.show(list, func(w io.Writer) error {
			if len(list) == 0 {
				_, err := fmt.Fprintln(w, "no tasks; `wakecall task start` starts one")
				return err
			}
			titles := []string{"ID", "ACTION", "TOPIC", "STATE", "DONE", "MATCHED", "BY", "STARTED"}
			return table(w, titles, list, func(t client.Task) []string {
				return []string{
					t.ID, t.Action, t.Filter.Topic, t.State, strconv.Itoa(t.Done), strconv.Itoa(t.Matched), t.StartedBy,
					describe.Instant(t.CreatedAt, p.now()),
				}
			})
		})
	})
	return p.addClientFlags(cmd)
}

// onTask returns a command whose argument is a task, and which shows it afterwards.
func (p *program) onTask(
	name, short string, do func(c *client.Client, ctx context.Context, id string) (*client.Task, error),
) *cobra.Command {
	return p.addClientFlags(&cobra.Command{
		Use: name + " ID", Short: short, Args: exactArgs("ID"),
		RunE: p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := do(c, ctx, args[0])
			if errors.Is(err, client.ErrNotFound) {
				return fmt.Errorf("%w. `wakecall task list` lists them", err)
			}
			if err != nil {
				return err
			}
			return p.show(t, func(w io.Writer) error { return taskFields(w, t, p.now()) })
		}),
	})
}

func taskFields(w io.Writer, t *client.Task, now time.Time) error {
	state := t.State
	switch {
	case t.CancelRequested && t.Open():
		state += ", being cancelled"
	case t.DryRun:
		state += " (dry run)"
	}
	f := t.Filter
	by, rate := unlessNone(t.By), ""
	if t.Rate > 0 {
		rate = strconv.FormatFloat(t.Rate, 'f', -1, 64) + "/s"
	}
	change := ""
	if t.Change != nil {
		change = printable.Line(t.Change.Priority + " " + describe.InstantOf(t.Change.DueAt, now))
	}
	return fields(w, "task", t.ID, "action", t.Action, "by", by, "change", change, "topic", f.Topic,
		"jobs", f.State, "id prefix", f.IDPrefix, "last error", f.Error, "reason", f.Reason,
		"due after", describe.InstantOf(f.DueAfter, now), "due before", describe.InstantOf(f.DueBefore, now),
		"died since", describe.InstantOf(f.Since, now), "died before", describe.InstantOf(f.Until, now), "rate", rate,
		"state", state, "matched", strconv.Itoa(t.Matched), "done", strconv.Itoa(t.Done),
		"skipped", fmt.Sprintf("%d running, %d gone, %d changed", t.Skipped.Running, t.Skipped.Gone, t.Skipped.Changed),
		"failed", strconv.Itoa(t.Failed), "failed again", strconv.Itoa(t.Again), "error", t.Error,
		"started by", t.StartedBy, "started", describe.Instant(t.CreatedAt, now),
		"updated", describe.Instant(t.UpdatedAt, now))
}
