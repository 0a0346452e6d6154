package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The states of a job.
const (
	Delayed = "delayed" // waiting for its due time or its retry time
	Ready   = "ready"   // due, waiting for a dispatcher
	Running = "running" // being called
	Dead    = "dead"    // out of attempts, stored until it is re-driven or deleted
	Done    = "done"    // delivered, and still remembered
)

// Job is a job in the API's answers. Only Get returns the body and the history.
type Job struct {
	Topic         string     `json:"topic"`
	ID            string     `json:"id"`
	Group         string     `json:"group,omitempty"`
	Key           string     `json:"key,omitempty"`
	URL           string     `json:"url,omitempty"` // its own, instead of the topic's
	State         string     `json:"state"`
	DueAt         time.Time  `json:"due_at"` // as pushed or changed; retries do not move it
	Priority      string     `json:"priority"`
	Attempts      int        `json:"attempts"` // number made so far
	CreatedAt     time.Time  `json:"created_at"`
	MaxAttempts   int        `json:"max_attempts,omitempty"`    // when the push set it; 0: the topic's
	TTR           Duration   `json:"ttr,omitempty"`             // when the push set it; 0: the topic's
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"` // of a delayed job that waits for its retry
	LeasedUntil   *time.Time `json:"leased_until,omitempty"`    // of a running job
	DeadAt        *time.Time `json:"dead_at,omitempty"`         // of a dead job
	DeadReason    string     `json:"dead_reason,omitempty"`     // of a dead job
	FinishedAt    *time.Time `json:"finished_at,omitempty"`     // of a finished job
	// of a finished job: how late its last attempt started
	LateMS      *int64            `json:"late_ms,omitempty"`
	ExpiresAt   *time.Time        `json:"expires_at,omitempty"`   // when the job expires
	Headers     map[string]string `json:"headers,omitempty"`      // the job's own
	Retry       []Duration        `json:"retry,omitempty"`        // the job's own
	Duplicate   bool              `json:"duplicate,omitempty"`    // of a push: the id already existed
	ContentType string            `json:"content_type,omitempty"` // of the body
	Body        json.RawMessage   `json:"body,omitempty"`         // JSON unchanged; other text as a JSON string
	BodyBase64  []byte            `json:"body_base64,omitempty"`  // of one that is neither text nor I-JSON
	// of a finished job: the body was too long to be remembered
	BodyGone bool `json:"body_gone,omitempty"`
	// of a finished job for which a Push waited, for two minutes: the result in the worker's ack, or what the endpoint
	// answered, see Response; Truncated: only the beginning of it
	Result    json.RawMessage `json:"result,omitempty"`
	Truncated bool            `json:"truncated,omitempty"`
	// of a push that waited: the error of a dead job's last attempt; and whether DeleteOnTimeout deleted the job
	Error   string    `json:"error,omitempty"`
	Deleted bool      `json:"deleted,omitempty"`
	History []Attempt `json:"history,omitempty"` // the last 20 attempts, oldest first
	Waits   []Wait    `json:"waits,omitempty"`   // all that a delayed or ready job waits for
	// of a job that a schedule pushed
	Schedule     string     `json:"schedule,omitempty"`
	ScheduledFor *time.Time `json:"scheduled_for,omitempty"` // the same over retries, without the jitter
	// of the push
	Traceparent string `json:"traceparent,omitempty"`
	// returned for one job, not in lists and batches; changes with every change of the job
	ETag string `json:"-"`
}

// Response is the Result of a job that was delivered to an endpoint.
type Response struct {
	Status      int     `json:"status"`
	ContentType string  `json:"content_type"`
	Body        *string `json:"body,omitempty"`        // nil: it is not UTF-8
	BodyBase64  []byte  `json:"body_base64,omitempty"` // then
}

// Attempt is one callback.
type Attempt struct {
	N         int       `json:"n"`
	StartedAt time.Time `json:"started_at"`
	TookMS    float64   `json:"took_ms"`
	Status    int       `json:"status,omitempty"` // HTTP status; 0: no answer
	Error     string    `json:"error,omitempty"`
	Answer    string    `json:"answer,omitempty"` // the beginning of the answer's body
}

// Wait is a reason why a job is not being called. Which fields are set depends on the reason.
type Wait struct {
	// Reason is shard_down, paused, offline, locked, not_due, retry, breaker_open, max_in_flight, rate_limit, window,
	// key, no_worker, behind, or next if nothing holds it up.
	Reason   string     `json:"reason"`
	Until    *time.Time `json:"until,omitempty"` // when the next call may be made
	By       string     `json:"by,omitempty"`    // who paused the topic
	Why      string     `json:"why,omitempty"`   // why it is paused
	Since    *time.Time `json:"since,omitempty"` // when it was paused
	Limit    float64    `json:"limit,omitempty"`
	Running  int64      `json:"running,omitempty"`  // jobs of the topic
	Jobs     int64      `json:"jobs,omitempty"`     // due jobs that are taken before it
	Attempt  int        `json:"attempt,omitempty"`  // that failed
	Failures int64      `json:"failures,omitempty"` // in a row
	Shard    string     `json:"shard,omitempty"`
	Error    string     `json:"error,omitempty"`
}

// Get returns a job with its attempts. ErrNotFound: it does not exist, or was delivered and is not remembered.
func (c *Client) Get(ctx context.Context, topic, id string) (*Job, error) {
	return c.job(ctx, request{method: http.MethodGet, path: jobPath(topic, id), repeatable: true})
}

// Change is an edit of a delayed or ready job. A nil field stays as it is.
type Change struct {
	DueAt    *time.Time     // or
	Delay    *time.Duration // from now
	DueLocal string         // as in Push, with TimeZone
	TimeZone string
	Priority string          // empty: unchanged
	URL      *string         // empty: the topic's; nil: unchanged
	Body     json.RawMessage // nil: unchanged
	ETag     string          // the change is made only if the job still has it; empty: any
}

// Change edits a delayed or ready job. ErrConflict: the job is running or dead. ErrChanged: it has another ETag.
func (c *Client) Change(ctx context.Context, topic, id string, ch Change) (*Job, error) {
	body, err := ch.encode()
	if err != nil {
		return nil, err
	}
	// A delay counts from its arrival, so repeating it would move the job again.
	return c.job(ctx, request{
		method: http.MethodPatch, path: jobPath(topic, id), body: body, repeatable: ch.Delay == nil && ch.ETag == "",
		match: ch.ETag,
	})
}

func (ch Change) encode() ([]byte, error) {
	p := Push{Priority: ch.Priority, Delay: ch.Delay, DueLocal: ch.DueLocal, TimeZone: ch.TimeZone}
	if ch.DueAt != nil {
		p.DueAt = *ch.DueAt
	}
	head, err := encode(struct {
		wirePush
		URL json.RawMessage `json:"url,omitempty"` // null: the topic's
	}{p.wire(), ch.url()})
	if err != nil || ch.Body == nil {
		return head, err
	}
	if !json.Valid(ch.Body) {
		return nil, errors.New("the body must be JSON")
	}
	return withBody(head, ch.Body), nil
}

func (ch Change) url() json.RawMessage {
	if ch.URL == nil {
		return nil
	}
	if *ch.URL == "" {
		return json.RawMessage("null")
	}
	text, _ := json.Marshal(*ch.URL) // a text: cannot fail
	return text
}

// Delete removes a job. No callback starts after Delete has returned nil. ErrNotFound: it does not exist.
func (c *Client) Delete(ctx context.Context, topic, id string) error {
	// Not repeated after a 503: the second answer could be ErrNotFound although the first request deleted the job.
	return c.DeleteIf(ctx, topic, id, "")
}

// DeleteIf removes a job if it still has an ETag. Errors: as Delete, and ErrChanged.
func (c *Client) DeleteIf(ctx context.Context, topic, id, etag string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: jobPath(topic, id), match: etag}, nil)
}

// Run makes a job due now; a dead job starts again at attempt 1.
func (c *Client) Run(ctx context.Context, topic, id string) (*Job, error) {
	return c.job(ctx, request{method: http.MethodPost, path: jobPath(topic, id) + "/run"})
}

// Resend sends a finished job again, due now. ErrConflict: the job has not ended, or its body is not remembered.
func (c *Client) Resend(ctx context.Context, topic, id string) (*Job, error) {
	return c.job(ctx, request{method: http.MethodPost, path: jobPath(topic, id) + "/resend"})
}

func (c *Client) job(ctx context.Context, r request) (*Job, error) {
	var job Job
	r.etag = &job.ETag
	if err := c.do(ctx, r, &job); err != nil {
		return nil, err
	}
	return &job, nil
}

// ListOptions selects a page of jobs.
type ListOptions struct {
	State  string      // Delayed, Ready, Running, Dead or Done; required
	Prefix string      // of the ids; only for Done and Dead
	Dead   *DeadFilter // only for Dead
	Limit  int         // jobs in the page; 0: the server's default
	Cursor string      // Page.Next of the previous page; empty: the first page
}

// Page is a part of a list of jobs.
type Page struct {
	Jobs []Job  `json:"jobs"`
	Next string `json:"next"` // cursor of the next page; empty at the end
}

// List returns a page of a topic's jobs in a state.
func (c *Client) List(ctx context.Context, topic string, o ListOptions) (*Page, error) {
	fields := map[string]string{
		"state": o.State, "prefix": o.Prefix, "limit": unlessZero(o.Limit), "cursor": o.Cursor,
	}
	if f := o.Dead; f != nil {
		fields["prefix"] = cmp.Or(f.Prefix, o.Prefix)
		fields["error"], fields["reason"], fields["status"] = f.Error, f.Reason, unlessZero(f.Status)
		fields["since"], fields["until"] = timeText(f.Since), timeText(f.Until)
	}
	q := queryOf(fields)
	return get[Page](ctx, c, request{method: http.MethodGet, path: jobsPath(topic), query: q, repeatable: true})
}

// Selection selects dead jobs: by ids, or the oldest, of those that a filter selects, up to a limit.
type Selection struct {
	IDs    []string    `json:"ids,omitempty"`
	Limit  int         `json:"limit,omitempty"`
	Filter *DeadFilter `json:"filter,omitempty"`
	DryRun bool        `json:"dry_run,omitempty"` // only count them
}

// DeadFilter selects dead jobs that match all its fields; the zero value of a field matches any. A list with a filter
// shows the jobs that a Selection with it acts on. Its pages may have fewer jobs than the limit.
type DeadFilter struct {
	Status int       `json:"status,omitempty"` // of the last answer
	Error  string    `json:"error,omitempty"`  // the last error contains it
	Prefix string    `json:"prefix,omitempty"` // of the id
	Reason string    `json:"reason,omitempty"` // as in Job.DeadReason
	Since  time.Time `json:"since,omitzero"`   // it became dead then or later
	Until  time.Time `json:"until,omitzero"`   // it became dead before
}

func jobsPath(topic string) string { return "/v1/topics/" + url.PathEscape(topic) + "/jobs" }

func jobPath(topic, id string) string { return jobsPath(topic) + "/" + escapeID(id) }

// escapeID escapes the id of a job, or the name of a group, for a path.
func escapeID(id string) string {
	if id == "." || id == ".." { // otherwise a proxy would resolve it as a relative path
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
