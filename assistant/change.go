package assistant

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wakecall/wakecall/client"
)

func (t *tools) addChanges(s *mcp.Server) {
	addTool(t, s, &mcp.Tool{
		Name: "run_job", Annotations: changes(true),
		Description: "Makes a job due now, so that its endpoint is called at once. A dead job starts again." +
			untrusted,
	}, func(ctx context.Context, in jobIn) (*job, error) {
		j, err := t.api.Run(ctx, in.Topic, in.ID)
		if err != nil {
			return nil, err
		}
		return new(t.job(j)), nil
	})
	addTool(t, s, &mcp.Tool{
		Name: "retry_dead", Annotations: changes(true),
		Description: "Makes dead jobs ready again, so that their endpoint is called: those with the given ids, or up " +
			"to limit of the oldest that the filter selects. Count them with dry_run first.",
	}, t.retryDead)
	addTool(t, s, &mcp.Tool{
		Name: "delete_job", Annotations: changes(true),
		Description: "Deletes a job. It is not called afterwards. This cannot be undone.",
	}, func(ctx context.Context, in jobIn) (*doneOut, error) {
		return done("deleted", t.api.Delete(ctx, in.Topic, in.ID))
	})
	addTool(t, s, &mcp.Tool{
		Name: "cancel_group", Annotations: changes(true),
		Description: "Deletes the waiting and dead jobs of a group, in all topics. They are not called afterwards; " +
			"running ones end, and are not retried. This cannot be undone: show the user group_jobs first.",
	}, t.cancelGroup)
	addTool(t, s, &mcp.Tool{
		Name: "pause_topic", Annotations: changes(false),
		Description: "Pauses a topic: it accepts jobs, but none is called until it is resumed.",
	}, func(ctx context.Context, in pauseIn) (*doneOut, error) {
		_, err := t.api.PauseTopic(ctx, in.Topic, in.Reason, time.Time{})
		return done("paused", err)
	})
	addTool(t, s, &mcp.Tool{
		Name: "resume_topic", Annotations: changes(false),
		Description: "Resumes a paused or offline topic: its jobs are called again.",
	}, func(ctx context.Context, in topicIn) (*doneOut, error) {
		_, err := t.api.ResumeTopic(ctx, in.Topic)
		return done("active", err)
	})
	addTool(t, s, &mcp.Tool{
		Name: "ack_alert", Annotations: changes(false),
		Description: "Acknowledges an open alert: it is not reported again until it gets worse or ends.",
	}, func(ctx context.Context, in ackIn) (*doneOut, error) {
		return done("acknowledged", t.api.AckAlert(ctx, in.ID, in.Reason))
	})
	t.addScheduleChanges(s)
}

type jobIn struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

type cancelIn struct {
	Group string `json:"group"`
	Close string `json:"close,omitempty" jsonschema:"refuse pushes into the group for this time, such as 10m"`
}

type cancelOut struct {
	Deleted int      `json:"deleted"`
	Running int      `json:"running" jsonschema:"jobs that are being called; they are not retried"`
	Pending []string `json:"pending,omitempty" jsonschema:"shards that do not answer; they delete their jobs later"`
}

func (t *tools) cancelGroup(ctx context.Context, in cancelIn) (*cancelOut, error) {
	closeFor, err := time.ParseDuration(cmp.Or(in.Close, "0"))
	if err != nil {
		return nil, fmt.Errorf("close must be a duration such as 10m: %w", err)
	}
	done, err := t.api.CancelGroup(ctx, in.Group, closeFor)
	if err != nil {
		return nil, err
	}
	return new(cancelOut(*done)), nil
}

type pauseIn struct {
	Topic  string `json:"topic"`
	Reason string `json:"reason,omitempty" jsonschema:"why, for the others on call"`
}

type ackIn struct {
	ID     uint64 `json:"id" jsonschema:"the alert's id, from the tool alerts"`
	Reason string `json:"reason" jsonschema:"why, for the others on call"`
}

type doneOut struct {
	Done string `json:"done"`
}

func done(what string, err error) (*doneOut, error) { return &doneOut{what}, err }

type retryIn struct {
	Topic string   `json:"topic"`
	IDs   []string `json:"ids,omitempty" jsonschema:"re-drive these jobs; without limit and filter"`
	Limit int      `json:"limit,omitempty" jsonschema:"re-drive up to this number of jobs, those that died first"`
	deadFilter
	DryRun bool `json:"dry_run,omitempty" jsonschema:"only count them"`
}

type countOut struct {
	Count  int  `json:"count"`
	DryRun bool `json:"dry_run,omitempty"`
}

func (t *tools) retryDead(ctx context.Context, in retryIn) (*countOut, error) {
	n, err := t.api.RetryDead(ctx, in.Topic, client.Selection{
		IDs: in.IDs, Limit: in.Limit, Filter: in.filter(), DryRun: in.DryRun,
	})
	return &countOut{n, in.DryRun}, err
}
