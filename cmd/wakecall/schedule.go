package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry/topicfile"
)

func (p *program) scheduleCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "schedule", GroupID: groupUse,
		Short: "list, show, apply, pause, resume, run, backfill and delete schedules",
		Long:  "A schedule pushes a job to its topic at each of its times, such as every weekday at 8 in Shanghai.",
	}, p.scheduleListCommand(), p.scheduleShowCommand(),
		p.applyCommand(`  wakecall schedule apply -f schedules.yaml
  wakecall schedule show report --yaml | sed s/Shanghai/Tokyo/ | wakecall schedule apply -f -`),
		p.scheduleDeleteCommand(), p.schedulePauseCommand(), p.scheduleResumeCommand(), p.scheduleRunCommand(),
		p.scheduleBackfillCommand())
}

func (p *program) scheduleListCommand() *cobra.Command {
	topic := ""
	cmd := &cobra.Command{
		Use: "list", Short: "list the schedules", Args: noArgs,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Schedules(ctx, topic)
			if err != nil {
				return err
			}
			if list == nil {
				list = []client.Schedule{}
			}
			return p.show(list, func(w io.Writer) error { return scheduleTable(w, list, p.now()) })
		}),
	}
	cmd.Flags().StringVar(&topic, "topic", "", "only schedules of this topic")
	completeBy(cmd, "topic", p.completeMoreTopics)
	return p.addClientFlags(cmd)
}

func scheduleTable(w io.Writer, list []client.Schedule, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no schedules; `wakecall schedule apply -f FILE` creates some")
		return err
	}
	titles := []string{"NAME", "TOPIC", "WHEN", "STATE", "NEXT"}
	return table(w, titles, list, func(s client.Schedule) []string {
		next := ""
		if len(s.Next) > 0 {
			next = describe.Instant(s.Next[0], now)
		}
		return []string{s.Name, s.Topic, whenOf(&s), s.State, next}
	})
}

// whenOf returns the rule of a schedule: 0 8 * * 1-5 Asia/Shanghai, or every 15m.
func whenOf(s *client.Schedule) string {
	if s.Cron == "" {
		return "every " + printable.ShortDuration(s.Every.Std())
	}
	return s.Cron + " " + s.TimeZone
}

func (p *program) scheduleShowCommand() *cobra.Command {
	asYAML := false
	cmd := p.onSchedule("show", "show a schedule: its next and last jobs, and what was left out",
		func(ctx context.Context, c *client.Client, name string) error {
			s, err := c.Schedule(ctx, name)
			if err != nil {
				return err
			}
			return p.show(s, func(w io.Writer) error {
				if asYAML {
					return scheduleYAML(w, s)
				}
				return scheduleFields(w, s, p.now())
			})
		})
	cmd.Flags().BoolVar(&asYAML, "yaml", false, "show its definition, as YAML for apply")
	return cmd
}

// scheduleYAML writes a schedule in the format that apply reads.
func scheduleYAML(w io.Writer, s *client.Schedule) error {
	d, err := definition(s)
	if err != nil {
		return err
	}
	text, err := topicfile.FormatSchedule(d)
	return writeYAML(w, "schedule", text, err)
}

func scheduleFields(w io.Writer, s *client.Schedule, now time.Time) error {
	shard := s.Shard
	if len(s.Unavailable) > 0 {
		shard += " (does not answer: its last jobs and what was left out are unknown)"
	}
	err := fields(w, "schedule", s.Name, "topic", s.Topic, "when", whenOf(s),
		"starts", describe.InstantOf(s.StartAt, now), "ends", describe.InstantOf(s.EndAt, now), "state", s.State,
		"until", describe.InstantOf(s.PausedUntil, now), "jitter", unlessNone(s.Jitter), "missed", s.Missed,
		"max late", unlessNone(s.MaxLate), "overlap", s.Overlap, "priority", s.Priority,
		"body", printable.Clip(string(s.Body), clipAt), "shard", shard,
		"left out", leftOutText(cmp.Or(s.LeftOut, &client.LeftOut{})))
	next := func(at time.Time) []string { return []string{describe.Instant(at, now)} }
	last := func(o client.Occurrence) []string {
		return []string{describe.Instant(o.ScheduledFor, now), o.State, o.ID}
	}
	return cmp.Or(err, section(w, []string{"NEXT"}, s.Next, next),
		section(w, []string{"LAST", "STATE", "ID"}, s.Last, last))
}

// section writes a table behind an empty line, if it has rows.
func section[T any](w io.Writer, titles []string, list []T, row func(T) []string) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return table(w, titles, list, row)
}

func unlessNone(d client.Duration) string {
	if d == 0 {
		return ""
	}
	return printable.ShortDuration(d.Std())
}

// leftOutText returns the numbers above zero with their reasons.
func leftOutText(n *client.LeftOut) string {
	var parts []string
	for _, one := range []struct {
		count  int64
		reason string
	}{{n.Late, "late"}, {n.Overlap, "overlap"}, {n.Paused, "paused"}, {n.Limit, "limit"}, {n.Edited, "edited"}} {
		if one.count > 0 {
			parts = append(parts, strconv.FormatInt(one.count, 10)+" "+one.reason)
		}
	}
	return strings.Join(parts, ", ")
}

// onSchedule returns a command whose argument is a schedule.
func (p *program) onSchedule(
	name, short string, do func(ctx context.Context, c *client.Client, name string) error,
) *cobra.Command {
	return p.addClientFlags(&cobra.Command{
		Use: name + " SCHEDULE", Short: short, Args: exactArgs("SCHEDULE"), ValidArgsFunction: p.completeSchedules,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			err := do(ctx, c, args[0])
			if errors.Is(err, client.ErrNotFound) {
				return fmt.Errorf("%w. `wakecall schedule list` lists them", err)
			}
			return err
		}),
	})
}

// completeSchedules completes the first argument with the names of schedules.
func (p *program) completeSchedules(
	cmd *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.offer(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		list, err := c.Schedules(ctx, "")
		for i := range list[:min(len(list), completionMost)] {
			names = append(names, list[i].Name)
		}
		return names, err
	})
}

func (p *program) scheduleDeleteCommand() *cobra.Command {
	return p.onSchedule("delete", "delete a schedule; its jobs stay",
		func(ctx context.Context, c *client.Client, name string) error {
			if err := c.DeleteSchedule(ctx, name); err != nil {
				return err
			}
			return p.say(map[string]any{"schedule": name, "deleted": true}, "deleted schedule %s", printable.Line(name))
		})
}

func (p *program) schedulePauseCommand() *cobra.Command {
	until := ""
	var cmd *cobra.Command
	cmd = p.onSchedule("pause", "push no jobs of a schedule until it is resumed",
		func(ctx context.Context, c *client.Client, name string) error {
			if err := refuseZero(cmd.Flags(), "until"); err != nil {
				return err
			}
			at, err := p.parseEnd("until", until)
			if err != nil {
				return err
			}
			return p.sayState(c.PauseSchedule(ctx, name, at))
		})
	cmd.Flags().StringVar(&until, "until", "",
		"resume it at this `TIME`: RFC 3339, Unix milliseconds, or in a duration such as 2h")
	return cmd
}

func (p *program) scheduleResumeCommand() *cobra.Command {
	catchUp := false
	cmd := p.onSchedule("resume", "end the pause of a schedule",
		func(ctx context.Context, c *client.Client, name string) error {
			return p.sayState(c.ResumeSchedule(ctx, name, catchUp))
		})
	cmd.Flags().BoolVar(&catchUp, "catch-up", false,
		"push the occurrences of the pause as its field missed says (default: leave them out)")
	return cmd
}

func (p *program) sayState(s *client.Schedule, err error) error {
	if err != nil {
		return err
	}
	text := "schedule " + printable.Line(s.Name) + " is " + printable.Line(s.State)
	if s.PausedUntil != nil {
		text += " until " + describe.Instant(*s.PausedUntil, p.now())
	}
	if len(s.Next) > 0 {
		text += "\nnext " + describe.Instant(s.Next[0], p.now())
	}
	return p.say(s, "%s", text)
}

func (p *program) scheduleRunCommand() *cobra.Command {
	return p.onSchedule("run", "push a job of a schedule now; the next one is pushed nevertheless",
		func(ctx context.Context, c *client.Client, name string) error {
			run, err := c.RunSchedule(ctx, name)
			if err != nil {
				return err
			}
			return p.say(run, "pushed %s %s", printable.Line(run.Topic), printable.Line(run.ID))
		})
}

func (p *program) scheduleBackfillCommand() *cobra.Command {
	var from, to string
	var b client.Backfill
	var cmd *cobra.Command
	cmd = p.onSchedule("backfill", "push the occurrences of a period that have no job",
		func(ctx context.Context, c *client.Client, name string) (err error) {
			if from == "" || to == "" {
				return usagef("--from and --to are required")
			}
			if err := refuseZero(cmd.Flags(), "overlap"); err != nil {
				return err
			}
			if b.From, err = parseTime("from", from); err != nil {
				return err
			}
			if b.To, err = parseTime("to", to); err != nil {
				return err
			}
			done, err := c.BackfillSchedule(ctx, name, b)
			if err != nil {
				return err
			}
			return p.show(done, func(w io.Writer) error { return backfillTable(w, done, b.DryRun) })
		})
	cmd.Long = "Pushes the occurrences from --from on, before --to, that have no job; at most 1,000.\n" +
		"With --dry-run it lists them, and pushes none."
	cmd.Flags().StringVar(&from, "from", "", "first `TIME`: RFC 3339, or Unix milliseconds")
	cmd.Flags().StringVar(&to, "to", "", "end of the period, a `TIME` after the last")
	cmd.Flags().StringVar(&b.Overlap, "overlap", "",
		"while the one before has not ended: skip, replace or allow (default allow)")
	cmd.Flags().BoolVar(&b.DryRun, "dry-run", false, "list the occurrences, and push none")
	complete(cmd, "overlap", "skip", "replace", "allow")
	return cmd
}

func backfillTable(w io.Writer, done *client.Backfilled, dryRun bool) (err error) {
	if !dryRun {
		_, err = fmt.Fprintf(w, "%s: %d pushed, %d existing, %d left out\n",
			printable.Count(len(done.Occurrences), "occurrence"), done.Pushed, done.Existing, done.LeftOut)
		return err
	}
	for _, at := range done.Occurrences {
		fmt.Fprintln(w, at.UTC().Format(describe.TimeLayout))
	}
	_, err = fmt.Fprintf(w, "%s; none was pushed\n", printable.Count(len(done.Occurrences), "occurrence"))
	return err
}
