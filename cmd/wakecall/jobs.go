package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (p *program) getCommand() *cobra.Command {
	const short = "show a job with its attempts; finished jobs while they are remembered"
	return p.jobCommand("get", short, p.showing((*client.Client).Get))
}

func (p *program) runCommand() *cobra.Command {
	return p.jobCommand("run", "make a job due now; a dead job starts again", p.showing((*client.Client).Run))
}

func (p *program) resendCommand() *cobra.Command {
	return p.jobCommand("resend", "send a finished job again, due now", p.showing((*client.Client).Resend))
}

func (p *program) deleteCommand() *cobra.Command {
	return p.jobCommand("delete", "delete a job; no callback starts afterwards", func(
		ctx context.Context, c *client.Client, topic, id string,
	) error {
		if err := c.Delete(ctx, topic, id); err != nil {
			return err
		}
		return p.say(map[string]any{"topic": topic, "id": id, "deleted": true},
			"deleted %s of topic %s", printable.Line(id), printable.Line(topic))
	})
}

// showing returns a jobCall that prints the job returned by call.
func (p *program) showing(call func(*client.Client, context.Context, string, string) (*client.Job, error)) jobCall {
	return func(ctx context.Context, c *client.Client, topic, id string) error {
		job, err := call(c, ctx, topic, id)
		if err != nil {
			return err
		}
		return p.showJob(job)
	}
}

// jobCall is the action of a command on one job.
type jobCall func(ctx context.Context, c *client.Client, topic, id string) error

func (p *program) jobCommand(name, short string, do jobCall) *cobra.Command {
	return p.addClientFlags(&cobra.Command{
		Use: name + " TOPIC ID", GroupID: groupUse, Short: short,
		Args: exactArgs("TOPIC", "ID"), ValidArgsFunction: p.completeTopics,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return do(ctx, c, args[0], args[1])
		}),
	})
}

func (p *program) listCommand() *cobra.Command {
	var o client.ListOptions
	cmd := &cobra.Command{
		Use: "list TOPIC", GroupID: groupUse, Short: "list a topic's jobs by state",
		Args: exactArgs("TOPIC"), ValidArgsFunction: p.completeTopics,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.State, "state", client.Delayed, "delayed, ready, running, dead or done")
	flags.StringVar(&o.Prefix, "prefix", "", "with --state done: only jobs whose id begins with `PREFIX`")
	p.addPageFlags(cmd, &o)
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		return p.listJobs(ctx, c, cmd, args[0], o)
	})
	complete(cmd, "state", client.Delayed, client.Ready, client.Running, client.Dead, client.Done)
	return p.addClientFlags(cmd)
}

func (p *program) addPageFlags(cmd *cobra.Command, o *client.ListOptions) {
	cmd.Flags().IntVar(&o.Limit, "limit", 50, "maximum number of jobs to list, 1 to 1000")
	cmd.Flags().StringVar(&o.Cursor, "cursor", "", "`CURSOR` that the previous page printed")
}

func (p *program) listJobs(
	ctx context.Context, c *client.Client, cmd *cobra.Command, topic string, o client.ListOptions,
) error {
	if err := refuseZero(cmd.Flags(), "limit"); err != nil {
		return err
	}
	page, err := c.List(ctx, topic, o)
	if err != nil {
		return err
	}
	return p.show(page, func(w io.Writer) error {
		if len(page.Jobs) == 0 && page.Next == "" {
			_, err := fmt.Fprintf(w, "topic %s has no %s jobs\n", printable.Line(topic), o.State)
			return err
		}
		return jobTable(w, page, p.now())
	})
}

func jobTable(w io.Writer, page *client.Page, now time.Time) error {
	titles := []string{"ID", "STATE", "DUE", "PRIORITY", "ATTEMPTS", "REASON"}
	err := table(w, titles, page.Jobs, func(j client.Job) []string {
		return []string{
			j.ID, j.State, describe.Instant(j.DueAt, now), j.Priority, strconv.Itoa(j.Attempts), j.DeadReason,
		}
	})
	if err != nil || page.Next == "" {
		return err
	}
	_, err = fmt.Fprintf(w, "more jobs: add --cursor %s\n", printable.Word(page.Next))
	return err
}

func (p *program) showJob(j *client.Job) error {
	return p.show(j, func(w io.Writer) error {
		if err := jobFields(w, j, p.now()); err != nil {
			return err
		}
		return historyTable(w, j.History)
	})
}

func jobFields(w io.Writer, j *client.Job, now time.Time) error {
	attempts := strconv.Itoa(j.Attempts)
	if j.MaxAttempts > 0 {
		attempts += " of " + strconv.Itoa(j.MaxAttempts)
	}
	state := j.State
	if j.DeadReason != "" {
		state += " (" + j.DeadReason + ")"
	}
	if j.Duplicate {
		state += " (the id already existed)"
	}
	ttr := ""
	if j.TTR != 0 {
		ttr = printable.ShortDuration(j.TTR.Std())
	}
	return fields(w, "topic", j.Topic, "id", j.ID, "group", j.Group, "key", j.Key, "url", j.URL, "schedule", j.Schedule,
		"scheduled for", describe.InstantOf(j.ScheduledFor, now), "state", state,
		"due", describe.Instant(j.DueAt, now), "next attempt", describe.InstantOf(j.NextAttemptAt, now),
		"leased until", describe.InstantOf(j.LeasedUntil, now),
		"dead since", describe.InstantOf(j.DeadAt, now), "finished", describe.InstantOf(j.FinishedAt, now), "late",
		lateness(j),
		"priority", j.Priority, "attempts", attempts, "ttr", ttr, "created", describe.Instant(j.CreatedAt, now),
		"waits", describe.Waits(j.Waits, now), "content type", j.ContentType, "body", shownBody(j))
}

func lateness(j *client.Job) string {
	if j.LateMS == nil {
		return ""
	}
	return (time.Duration(*j.LateMS) * time.Millisecond).String()
}

func shownBody(j *client.Job) string {
	if j.BodyGone {
		return "too long to be remembered"
	}
	if !utf8.Valid(j.BodyBase64) {
		return fmt.Sprintf("%d bytes of binary data (in base64 with --output json)", len(j.BodyBase64))
	}
	return string(j.Body) + string(j.BodyBase64) // one of them
}

func historyTable(w io.Writer, history []client.Attempt) error {
	if len(history) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	titles := []string{"ATTEMPT", "STARTED", "TOOK", "STATUS", "ERROR", "ANSWER"}
	return table(w, titles, history, func(h client.Attempt) []string {
		status := ""
		if h.Status != 0 {
			status = strconv.Itoa(h.Status)
		}
		took := printable.Duration(time.Duration(h.TookMS * float64(time.Millisecond)))
		return []string{
			strconv.Itoa(h.N), h.StartedAt.UTC().Format(describe.TimeLayout), took, status, h.Error,
			printable.Clip(h.Answer, clipAt),
		}
	})
}
