package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/printable"
)

// clipAt is how much of a body or an answer fits on a line.
const clipAt = 60

// pushFlags are the flags of `wakecall push`.
type pushFlags struct {
	id, due, priority, body, onDuplicate, contentType string
	delay, ttr                                        time.Duration
	maxAttempts                                       int
	hasDelay, hasBody                                 bool
}

func (a *cli) pushCommand() *cobra.Command {
	var f pushFlags
	cmd := &cobra.Command{
		Use: "push TOPIC [-]", GroupID: groupUse, Short: "push one job",
		Long: "Pushes one job. Its body is --body, or with - what stands on the standard input; without either it is null.",
		Example: `  wakecall push order.close --id order-42 --delay 30m --body '{"order":42}'
  wakecall push report --due 2026-12-24T18:00:00Z - < report.json
  wakecall push mail --content-type text/plain --body 'Hello'`,
		Args: pushArgs, ValidArgsFunction: a.completeTopics,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.id, "id", "", "`ID` of the job, unique in its topic while it lives (default: one is made)")
	flags.DurationVar(&f.delay, "delay", 0, "call back after this time, such as 90s or 30m (default: the topic's)")
	flags.StringVar(&f.due, "due", "", "call back at this `TIME`: RFC 3339, or Unix milliseconds")
	flags.StringVar(&f.priority, "priority", "", "high, normal or low (default: the topic's)")
	flags.StringVar(&f.body, "body", "", "the job's body; JSON, unless --content-type says otherwise")
	flags.DurationVar(&f.ttr, "ttr", 0, "how long one attempt may take (default: the topic's)")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how often to try (default: the topic's)")
	flags.StringVar(&f.onDuplicate, "on-duplicate", "", "when the id lives already: keep it, replace it, or error (default keep)")
	flags.StringVar(&f.contentType, "content-type", "", "`TYPE` of the body; it goes to the endpoint (default application/json)")
	for name, values := range map[string][]string{"priority": {"high", "normal", "low"}, "on-duplicate": {"keep", "replace", "error"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		f.hasDelay, f.hasBody = flags.Changed("delay"), flags.Changed("body")
		job, err := a.push(ctx, c, f, args)
		if err != nil {
			return err
		}
		return a.showJob(job)
	})
	return a.addClientFlags(cmd)
}

func pushArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 2 && args[1] == "-" {
		return nil
	}
	if len(args) == 2 {
		return usagef("%s: unexpected argument %q; give the body with --body, or - to read it from the standard input", cmd.CommandPath(), args[1])
	}
	return exactArgs("TOPIC")(cmd, args)
}

func (a *cli) push(ctx context.Context, c *client.Client, f pushFlags, args []string) (*client.Job, error) {
	body, err := a.pushBody(f, len(args) == 2)
	if err != nil {
		return nil, err
	}
	if f.hasDelay && f.due != "" {
		return nil, usagef("give --delay or --due, not both")
	}
	due, err := parseDue(f.due)
	if err != nil {
		return nil, err
	}
	var delay *time.Duration
	if f.hasDelay {
		delay = &f.delay
	}
	if f.contentType != "" {
		return c.PushRaw(ctx, args[0], client.RawPush{
			ID: firstOf(f.id, rand.Text()), Body: body, ContentType: f.contentType, Delay: delay, DueAt: due, Priority: f.priority,
			TTR: f.ttr, MaxAttempts: f.maxAttempts, OnDuplicate: f.onDuplicate,
		})
	}
	if !json.Valid(body) {
		return nil, usagef("the body is not JSON: %q; quote a text as in '\"text\"', or say what it is with --content-type text/plain", printable.Clip(body, clipAt))
	}
	return c.Push(ctx, args[0], client.Push{
		ID: f.id, Body: body, Delay: delay, DueAt: due, Priority: f.priority, TTR: f.ttr, MaxAttempts: f.maxAttempts, OnDuplicate: f.onDuplicate,
	})
}

func (a *cli) pushBody(f pushFlags, fromInput bool) ([]byte, error) {
	switch {
	case fromInput && f.hasBody:
		return nil, usagef("give the body with --body or with -, not both")
	case fromInput:
		body, err := io.ReadAll(a.in)
		if err != nil {
			return nil, fmt.Errorf("reading the body: %w", err)
		}
		if f.contentType == "" {
			body = bytes.TrimSpace(body)
		}
		return body, nil
	case f.hasBody:
		return []byte(f.body), nil
	}
	return []byte("null"), nil
}

// parseDue reads RFC 3339 or Unix milliseconds; nothing is the zero time.
func parseDue(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, usagef("--due %q is neither RFC 3339 (2026-12-24T18:00:00Z) nor Unix milliseconds", s)
	}
	return t, nil
}

func (a *cli) getCommand() *cobra.Command {
	return a.jobCommand("get", "show a job with its attempts so far", func(ctx context.Context, c *client.Client, topic, id string) error {
		job, err := c.Get(ctx, topic, id)
		if err != nil {
			return err
		}
		return a.showJob(job)
	})
}

func (a *cli) runCommand() *cobra.Command {
	return a.jobCommand("run", "make a job due now, a dead one too", func(ctx context.Context, c *client.Client, topic, id string) error {
		job, err := c.Run(ctx, topic, id)
		if err != nil {
			return err
		}
		return a.showJob(job)
	})
}

func (a *cli) deleteCommand() *cobra.Command {
	return a.jobCommand("delete", "delete a job; no callback starts afterwards", func(ctx context.Context, c *client.Client, topic, id string) error {
		if err := c.Delete(ctx, topic, id); err != nil {
			return err
		}
		return a.show(map[string]any{"topic": topic, "id": id, "deleted": true}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "deleted %s of topic %s\n", printable.Line(id), printable.Line(topic))
			return err
		})
	})
}

func (a *cli) jobCommand(name, short string, do func(ctx context.Context, c *client.Client, topic, id string) error) *cobra.Command {
	return a.addClientFlags(&cobra.Command{
		Use: name + " TOPIC ID", GroupID: groupUse, Short: short, Args: exactArgs("TOPIC", "ID"), ValidArgsFunction: a.completeTopics,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error { return do(ctx, c, args[0], args[1]) }),
	})
}

func (a *cli) listCommand() *cobra.Command {
	var o client.ListOptions
	cmd := &cobra.Command{
		Use: "list TOPIC", GroupID: groupUse, Short: "list a topic's jobs in a state",
		Args: exactArgs("TOPIC"), ValidArgsFunction: a.completeTopics,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			page, err := c.List(ctx, args[0], o)
			if err != nil {
				return err
			}
			return a.show(page, func(w io.Writer) error {
				if len(page.Jobs) == 0 {
					_, err := fmt.Fprintf(w, "topic %s has no %s jobs\n", printable.Line(args[0]), o.State)
					return err
				}
				return jobTable(w, page, a.now())
			})
		}),
	}
	cmd.Flags().StringVar(&o.State, "state", client.Delayed, "delayed, ready, running or dead")
	cmd.Flags().IntVar(&o.Limit, "limit", 50, "so many at most")
	cmd.Flags().StringVar(&o.Cursor, "cursor", "", "where the page before ended")
	states := []string{client.Delayed, client.Ready, client.Running, client.Dead}
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return a.addClientFlags(cmd)
}

func jobTable(w io.Writer, page *client.Page, now time.Time) error {
	var rows [][]string
	for i := range page.Jobs {
		j := &page.Jobs[i]
		rows = append(rows, []string{j.ID, j.State, instant(j.DueAt, now), j.Priority, strconv.Itoa(j.Attempts), j.DeadReason})
	}
	if err := table(w, []string{"ID", "STATE", "DUE", "PRIORITY", "ATTEMPTS", "REASON"}, rows); err != nil || page.Next == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "there are more: add --cursor %s\n", printable.Line(page.Next))
	return err
}

func (a *cli) showJob(j *client.Job) error {
	return a.show(j, func(w io.Writer) error {
		if err := jobFields(w, j, a.now()); err != nil {
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
		state += " (the id lived already)"
	}
	ttr := ""
	if j.TTR != 0 {
		ttr = printable.ShortDuration(j.TTR.Std())
	}
	return fields(w, "topic", j.Topic, "id", j.ID, "state", state, "due", instant(j.DueAt, now),
		"next attempt", instantOf(j.NextAttemptAt, now), "lease until", instantOf(j.LeaseUntil, now), "dead since", instantOf(j.DeadAt, now),
		"priority", j.Priority, "attempts", attempts, "ttr", ttr, "created", instant(j.CreatedAt, now),
		"content type", j.ContentType, "body", shownBody(j))
}

func shownBody(j *client.Job) string {
	if len(j.BodyBase64) > 0 {
		return fmt.Sprintf("%d bytes that are no text (--output json has them in base64)", len(j.BodyBase64))
	}
	return string(j.Body)
}

func historyTable(w io.Writer, history []client.Attempt) error {
	if len(history) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	var rows [][]string
	for _, h := range history {
		status := ""
		if h.Status != 0 {
			status = strconv.Itoa(h.Status)
		}
		took := printable.Duration(time.Duration(h.TookMS * float64(time.Millisecond)))
		rows = append(rows, []string{
			strconv.Itoa(h.N), h.StartedAt.UTC().Format("2006-01-02T15:04:05.000Z"), took, status, h.Error, printable.Clip([]byte(h.Answer), clipAt),
		})
	}
	return table(w, []string{"ATTEMPT", "STARTED", "TOOK", "STATUS", "ERROR", "ANSWER"}, rows)
}

// completeTopics completes the first argument with the names of the topics, when a server answers.
func (a *cli) completeTopics(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := a.topicNames(cmd.Context(), prefix)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *cli) topicNames(ctx context.Context, prefix string) ([]string, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	topics, err := c.Topics(ctx)
	var names []string
	for _, t := range topics {
		if strings.HasPrefix(t.Name, prefix) {
			names = append(names, t.Name)
		}
	}
	return names, errors.Join(err)
}
