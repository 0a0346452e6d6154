package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/document"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
)

// clipAt is the maximum number of bytes of a body or an answer on one line.
const clipAt = 60

// pushFlags are the flags of `wakecall push`.
type pushFlags struct {
	client.RawPush
	due, body         string // due is local with RawPush.TimeZone
	delay             duration
	hasDelay, hasBody bool
}

func (p *program) pushCommand() *cobra.Command {
	var f pushFlags
	cmd := &cobra.Command{
		Use: "push TOPIC [-]", GroupID: groupUse, Short: "push one job",
		Long: "Pushes one job. Its body comes from --body, or with - from standard input; otherwise it is null.\n" +
			"With --wait it prints the job's result, and exits with 0 when the job is done, else with 1.",
		Example: `  wakecall push order.close --id order-42 --delay 30m --body '{"order":42}'
  wakecall push report --due 2026-12-24T18:00:00Z - < report.json
  wakecall push report --due 2026-12-24T18:00:00 --time-zone Europe/Berlin --body '{}'
  wakecall push mail --content-type text/plain --body 'Hello'
  wakecall push reminder --group order-42 --delay 24h --body '{"order":42}'
  wakecall push price.check --wait 10s --body '{"sku":7}'`,
		Args: pushArgs, ValidArgsFunction: p.completeTopics,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.ID, "id", "", "`ID` of the job, unique in its topic while the job exists (default: generated)")
	flags.Var(&f.delay, "delay", "call back after this time: 90s, 30m, or a number of seconds (default: the topic's)")
	flags.StringVar(&f.due, "due", "",
		"call back at this `TIME`: RFC 3339, or Unix milliseconds; with --time-zone 2026-12-24T18:00:00")
	flags.StringVar(&f.TimeZone, "time-zone", "", "time `ZONE` of --due: an IANA name such as Europe/Berlin")
	flags.StringVar(&f.URL, "callback-url", "", "call this `URL` instead of the topic's, whose job_urls must allow it")
	flags.StringVar(&f.Priority, "priority", "", "high, normal or low (default: the topic's)")
	flags.StringVar(&f.body, "body", "", "the job's body; JSON, unless --content-type says otherwise")
	flags.Var((*duration)(&f.TTR), "ttr", "how long one attempt may take, as --delay (default: the topic's)")
	flags.IntVar(&f.MaxAttempts, "max-attempts", 0, "maximum number of attempts (default: the topic's)")
	flags.StringVar(&f.OnDuplicate, "on-duplicate", "",
		"if the id already exists: keep, replace or error (default keep)")
	flags.StringVar(&f.Key, "key", "", "`KEY` of the job: a topic with per_key calls the jobs of a key one at a time")
	flags.StringVar(&f.Group, "group", "", "`GROUP` of the job: wakecall group cancel deletes all jobs of a group")
	flags.Var((*duration)(&f.Wait), "wait", "wait for the end of the job, up to 60s, and print its result")
	flags.BoolVar(&f.DeleteOnTimeout, "delete-on-timeout", false,
		"delete the job when the time of --wait is over, unless it runs")
	flags.StringVar(&f.ContentType, "content-type", "",
		"`TYPE` of the body, sent to the endpoint (default application/json)")
	complete(cmd, "priority", client.High, client.Normal, client.Low)
	complete(cmd, "on-duplicate", client.Keep, client.Replace, client.Refuse)
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		err := refuseZero(flags, "id", "due", "priority", "ttr", "max-attempts", "on-duplicate", "group",
			"content-type", "time-zone", "callback-url", "wait")
		if err != nil {
			return err
		}
		f.hasDelay, f.hasBody = flags.Changed("delay"), flags.Changed("body")
		job, err := p.push(ctx, c, f, args)
		if err != nil {
			return err
		}
		if f.Wait > 0 {
			return p.showResult(job)
		}
		return p.showJob(job)
	})
	return p.addClientFlags(cmd)
}

func pushArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 2 && args[1] == "-" {
		args = args[:1]
	}
	if len(args) == 2 {
		return usagef("%s: unexpected argument %q; give the body with --body, or - to read it from standard input",
			cmd.CommandPath(), args[1])
	}
	return exactArgs("TOPIC")(cmd, args)
}

func (p *program) push(ctx context.Context, c *client.Client, f pushFlags, args []string) (*client.Job, error) {
	body, err := p.pushBody(f, len(args) == 2)
	if err != nil {
		return nil, err
	}
	if f.hasDelay && f.due != "" {
		return nil, usagef("--delay and --due cannot be used together")
	}
	f.Body = body
	if f.TimeZone != "" {
		f.DueLocal = f.due
	} else if f.DueAt, err = parseDue(f.due); err != nil {
		return nil, err
	}
	if f.hasDelay {
		f.Delay = (*time.Duration)(&f.delay)
	}
	if f.ContentType != "" {
		return c.PushRaw(ctx, args[0], f.RawPush)
	}
	if !json.Valid(body) {
		return nil, usagef("the body must be JSON: %q; quote a text as in '\"text\"', or name its type with "+
			"--content-type text/plain", printable.Clip(string(body), clipAt))
	}
	return c.Push(ctx, args[0], client.Push{
		ID: f.ID, Body: body, Delay: f.Delay, DueAt: f.DueAt, Priority: f.Priority, TTR: f.TTR,
		MaxAttempts: f.MaxAttempts, OnDuplicate: f.OnDuplicate, Group: f.Group, Key: f.Key, URL: f.URL,
		DueLocal: f.DueLocal, TimeZone: f.TimeZone, Wait: f.Wait, DeleteOnTimeout: f.DeleteOnTimeout,
	})
}

// showResult prints the result of a job that has ended. Of another one it returns an error that says what it is.
func (p *program) showResult(job *client.Job) error {
	var err error
	switch {
	case job.State == client.Dead:
		err = fmt.Errorf("job %s of topic %s is dead: %s", job.ID, job.Topic, cmp.Or(job.Error, job.DeadReason))
	case job.Deleted:
		err = fmt.Errorf("job %s of topic %s did not end in time, and was deleted", job.ID, job.Topic)
	case job.State != client.Done:
		err = fmt.Errorf("job %s of topic %s has not ended in time; it is %s", job.ID, job.Topic, job.State)
	}
	return errors.Join(err, p.show(job, func(w io.Writer) error {
		if err != nil {
			return nil
		}
		_, err := fmt.Fprintln(w, printable.Lines(cmp.Or(string(job.Result), "null")))
		return err
	}))
}

func (p *program) pushBody(f pushFlags, fromInput bool) ([]byte, error) {
	switch {
	case fromInput && f.hasBody:
		return nil, usagef("--body and - cannot be used together")
	case fromInput:
		body, err := io.ReadAll(p.in)
		if err != nil {
			return nil, fmt.Errorf("read the body: %w", err)
		}
		if f.ContentType == "" {
			body = bytes.TrimSpace(document.Text(body))
		}
		return body, nil
	case f.hasBody:
		return []byte(f.body), nil
	}
	return []byte("null"), nil
}

// parseDue parses the value of --due.
func parseDue(s string) (time.Time, error) { return parseTime("due", s) }

// parseEnd reads a time like parseTime, or as a duration from now.
func (p *program) parseEnd(flag, value string) (time.Time, error) {
	if d, err := time.ParseDuration(value); err == nil && value != "0" {
		return p.now().Add(d), nil
	}
	return parseTime(flag, value)
}

// parseTime parses the value of a flag, an RFC 3339 time or Unix milliseconds; "" is the zero time.
func parseTime(flag, value string) (t time.Time, err error) {
	if value == "" {
		return t, nil
	}
	if t, err = registry.ParseInstant(value); err != nil {
		return t, usagef("--%s %q %w", flag, value, err)
	}
	return t, nil
}
