package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The priorities of a job, consumed 5:3:2.
const (
	High   = "high"
	Normal = "normal"
	Low    = "low"
)

// What a push does when its id already exists.
const (
	Keep    = "keep"    // answer with the existing job (the default)
	Replace = "replace" // new body and due time
	Refuse  = "error"   // ErrConflict
)

// Push is a job to be stored. Zero fields take the topic's defaults.
type Push struct {
	Topic       string          // in a batch; Client.Push takes it as an argument
	ID          string          // 1 to 128 bytes; empty: the client generates one
	Body        json.RawMessage // any JSON value; it reaches the endpoint unchanged, byte for byte
	Delay       *time.Duration  // from the push; nil: the topic's
	DueAt       time.Time       // instead of Delay; rounded up to milliseconds; a past time means now
	DueLocal    string          // instead of DueAt: a time such as 2026-12-24T18:00:00 in TimeZone
	TimeZone    string          // of DueLocal: an IANA name such as Europe/Berlin
	Priority    string          // High, Normal or Low
	TTR         time.Duration   // how long one attempt may take
	MaxAttempts int
	OnDuplicate string            // Keep, Replace or Refuse
	TTL         time.Duration     // the job expires this long after the push; 0: never
	ExpiresAt   time.Time         // instead of TTL
	Headers     map[string]string // the job's own
	Retry       []time.Duration   // waits between attempts
	Group       string            // CancelGroup deletes all jobs of a group; as an ID, or empty: none
	Traceparent string            // W3C trace context of the caller's span; empty: none
	Key         string            // a topic with PerKey calls the jobs of a key one at a time; as an ID, or empty: none
	URL         string            // called instead of the topic's CallbackURL, if its JobURLs allow it
	// Wait makes Push return when the job has ended, at the latest after this time, up to a minute: State is Done or
	// Dead then. It needs the right to read, too. Not in a batch.
	Wait            time.Duration
	DeleteOnTimeout bool // delete the job when Wait is over, unless it runs
}

// Pusher is what a service does with jobs. *Client is one, and wakecalltest.Fake is another, for unit tests. It may get
// more methods in a later version.
type Pusher interface {
	Push(ctx context.Context, topic string, p Push) (*Job, error)
	PushBatch(ctx context.Context, pushes []Push) ([]Result, error)
	Get(ctx context.Context, topic, id string) (*Job, error)
	Change(ctx context.Context, topic, id string, ch Change) (*Job, error)
	Delete(ctx context.Context, topic, id string) error
	CancelGroup(ctx context.Context, name string, closeFor time.Duration) (*GroupCancelled, error)
}

var _ Pusher = (*Client)(nil)

// After returns a Push.Delay.
func After(d time.Duration) *time.Duration { return &d }

// Result is a member of a batch: a job or an error.
type Result struct {
	Job *Job
	Err error // an *Error
}

// Push stores a job. Errors: ErrInvalid, ErrNotFound (no such topic), ErrConflict (the topic is offline, the group is
// closed; with Refuse, the id already exists; or, with Wait, the job was deleted or replaced), ErrTooLarge,
// ErrUnavailable.
func (c *Client) Push(ctx context.Context, topic string, p Push) (*Job, error) {
	p.Topic = "" // the path has it
	p.ID = orNewID(p.ID)
	body, err := p.encode()
	if err != nil {
		return nil, err
	}
	return c.job(ctx, request{
		method: http.MethodPost, path: jobsPath(topic), body: body, repeatable: p.repeatable(), waits: p.Wait,
	})
}

// RawPush is a job whose body need not be JSON.
type RawPush struct {
	ID          string // as in Push
	Body        []byte // reaches the endpoint byte for byte
	ContentType string // of the body; empty: application/json
	Delay       *time.Duration
	DueAt       time.Time
	DueLocal    string
	TimeZone    string
	Priority    string
	TTR         time.Duration
	MaxAttempts int
	OnDuplicate string
	Group       string
	Traceparent string // as in Push
	Key         string
	URL         string
	Headers     map[string]string
	Retry       []time.Duration

	Wait            time.Duration // as in Push
	DeleteOnTimeout bool
}

// PushRaw stores a job with any bytes as its body. Errors are those of Push.
func (c *Client) PushRaw(ctx context.Context, topic string, p RawPush) (*Job, error) {
	body := p.Body
	if body == nil {
		body = []byte{}
	}
	return c.job(ctx, request{
		method: http.MethodPut, path: jobPath(topic, orNewID(p.ID)), query: p.query(), body: body,
		contentType: p.ContentType, repeatable: p.OnDuplicate != Refuse, waits: p.Wait, traceparent: p.Traceparent,
	})
}

func (p RawPush) query() url.Values {
	w := Push{
		Delay: p.Delay, DueAt: p.DueAt, DueLocal: p.DueLocal, TTR: p.TTR, Wait: p.Wait,
		DeleteOnTimeout: p.DeleteOnTimeout,
	}.wire()
	var retry []string
	for _, d := range p.Retry {
		retry = append(retry, d.String())
	}
	query := queryOf(map[string]string{
		"delay": w.Delay, "due_at": w.DueAt, "ttr": w.TTR, "max_attempts": unlessZero(p.MaxAttempts),
		"priority": p.Priority, "on_duplicate": p.OnDuplicate, "group": p.Group, "key": p.Key,
		"url": p.URL, "time_zone": p.TimeZone, "wait": w.Wait, "on_timeout": w.OnTimeout,
		"retry": strings.Join(retry, ","),
	})
	for name, value := range p.Headers {
		query.Set("headers["+name+"]", value)
	}
	return query
}

// PushBatch stores up to 1,000 jobs, of any topics, and returns a result for each, in order. A refused job does not
// fail the others; an error concerns the whole request.
func (c *Client) PushBatch(ctx context.Context, pushes []Push) ([]Result, error) {
	body, repeatable, err := encodeBatch(pushes)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Results []batchResult `json:"results"`
	}
	if err := c.do(ctx, request{method: http.MethodPost, path: "/v1/jobs", body: body, repeatable: repeatable},
		&answer); err != nil {
		return nil, err
	}
	if len(answer.Results) != len(pushes) {
		return nil, fmt.Errorf("push batch: got %d results for %d jobs", len(answer.Results), len(pushes))
	}
	results := make([]Result, len(pushes))
	for i, r := range answer.Results {
		if r.Error != nil {
			results[i].Err = r.Error.error()
			continue
		}
		results[i].Job = &r.Job
	}
	return results, nil
}

func encodeBatch(pushes []Push) (body []byte, repeatable bool, err error) {
	var b bytes.Buffer
	b.WriteString(`{"jobs":[`)
	repeatable = true
	for i, p := range pushes {
		p.ID = orNewID(p.ID)
		one, err := p.encode()
		if err != nil {
			return nil, false, fmt.Errorf("job %d: %w", i, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(one)
		repeatable = repeatable && p.repeatable()
	}
	b.WriteString("]}")
	return b.Bytes(), repeatable, nil
}

// batchResult is a job or an error.
type batchResult struct {
	Job
	Error *problem `json:"error"`
}

// repeatable reports whether a repeated push has the answer of the first: one that refuses duplicates refuses itself.
func (p Push) repeatable() bool { return p.OnDuplicate != Refuse }

// orNewID returns id, or a new one if it is empty. The server recognizes a repeated push by its id.
func orNewID(id string) string {
	if id != "" {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// wirePush is the JSON of a Push without the body.
type wirePush struct {
	Topic       string            `json:"topic,omitempty"`
	ID          string            `json:"id,omitempty"`
	Delay       string            `json:"delay,omitempty"`
	DueAt       string            `json:"due_at,omitempty"`
	TimeZone    string            `json:"time_zone,omitempty"`
	Priority    string            `json:"priority,omitempty"`
	TTR         string            `json:"ttr,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	OnDuplicate string            `json:"on_duplicate,omitempty"`
	TTL         string            `json:"ttl,omitempty"`
	ExpiresAt   string            `json:"expires_at,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Retry       []Duration        `json:"retry,omitempty"`
	Group       string            `json:"group,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	Key         string            `json:"key,omitempty"`
	URL         string            `json:"url,omitempty"`
	Wait        string            `json:"wait,omitempty"`
	OnTimeout   string            `json:"on_timeout,omitempty"`
}

func (p Push) wire() wirePush {
	w := wirePush{
		Topic: p.Topic, ID: p.ID, Priority: p.Priority, MaxAttempts: p.MaxAttempts, OnDuplicate: p.OnDuplicate,
		Headers: p.Headers, Group: p.Group, Key: p.Key, Traceparent: p.Traceparent, URL: p.URL,
		DueAt: cmp.Or(formatInstant(p.DueAt), p.DueLocal), TimeZone: p.TimeZone, TTR: formatDuration(p.TTR),
		Wait: formatDuration(p.Wait), TTL: formatDuration(p.TTL), ExpiresAt: formatInstant(p.ExpiresAt),
	}
	if p.Delay != nil {
		w.Delay = p.Delay.String()
	}
	if p.DeleteOnTimeout {
		w.OnTimeout = "delete"
	}
	for _, d := range p.Retry {
		w.Retry = append(w.Retry, Duration(d))
	}
	return w
}

// encode appends the body itself, because encoding/json would compact and escape it.
func (p Push) encode() ([]byte, error) {
	if !json.Valid(p.Body) {
		return nil, errors.New("the body must be JSON; use PushRaw for other bodies")
	}
	head, err := encode(p.wire())
	if err != nil {
		return nil, err
	}
	return withBody(head, p.Body), nil
}

// withBody adds a body to the JSON of an object.
func withBody(head, body []byte) []byte {
	b := make([]byte, 0, len(head)+len(body)+9)
	b = append(b, head[:len(head)-1]...) // without the closing brace
	if len(head) > len("{}") {
		b = append(b, ',')
	}
	b = append(b, `"body":`...)
	b = append(b, body...)
	return append(b, '}')
}

// formatDuration formats a duration; 0 becomes "".
func formatDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// formatInstant formats a time as RFC 3339 with milliseconds, in UTC; the zero time becomes "". It rounds up, since a
// job must never be early.
func formatInstant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Add(time.Millisecond - time.Nanosecond).Format("2006-01-02T15:04:05.000Z07:00")
}
