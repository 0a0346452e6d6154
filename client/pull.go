package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The orders of topics in a Reserve.
const (
	Fair   = "fair"   // 5:3:2 over the priorities, round robin over the topics
	Listed = "listed" // from the first listed topic that has a ready job
)

// Reserve asks for jobs of pull topics.
type Reserve struct {
	Topics []string
	Max    int           // 1 to 100; 0: one
	Wait   time.Duration // for the first job, up to 10 minutes; 0: do not wait
	TTR    time.Duration // how long the leases last; 0: the job's, or its topic's
	Order  string        // Fair or Listed; empty: Fair
}

// LeasedJob is a job whose lease lasts for TTR after its arrival: until LeasedUntil by Redis's clock.
type LeasedJob struct {
	Lease       string            `json:"lease"`
	LeasedUntil time.Time         `json:"leased_until"`
	TTR         Duration          `json:"ttr"` // how long the lease lasts
	Topic       string            `json:"topic"`
	ID          string            `json:"id"`
	Priority    string            `json:"priority"`
	Attempt     int               `json:"attempt"`      // counted from 1
	MaxAttempts int               `json:"max_attempts"` // 0: no limit
	DueAt       time.Time         `json:"due_at"`
	CreatedAt   time.Time         `json:"created_at"`
	ExpiresAt   *time.Time        `json:"expires_at,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"` // of the push, for a link to it
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Body        json.RawMessage   `json:"body,omitempty"`        // JSON unchanged; other text as a JSON string
	BodyBase64  []byte            `json:"body_base64,omitempty"` // of one that is neither text nor I-JSON

	// Result is set by Worker.Handle: any JSON value, for a Push that waits; nil: none.
	Result json.RawMessage `json:"-"`
}

// Payload returns the body, byte for byte.
func (j *LeasedJob) Payload() []byte {
	if j.BodyBase64 != nil {
		return j.BodyBase64
	}
	var text string
	if isJSONType(j.ContentType) || json.Unmarshal(j.Body, &text) != nil {
		return j.Body
	}
	return []byte(text)
}

func isJSONType(contentType string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	kind = strings.TrimSpace(kind)
	return kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// Reserve reserves jobs; it returns none if none became ready in time. If ctx ends meanwhile, the worker holds none.
// Errors: ErrNotFound (no such topic), ErrForbidden, ErrConflict (a push topic), ErrUnavailable.
func (c *Client) Reserve(ctx context.Context, r Reserve) ([]LeasedJob, error) {
	ask := map[string]any{"topics": r.Topics}
	if r.Max > 0 {
		ask["max"] = r.Max
	}
	if r.Order != "" {
		ask["order"] = r.Order
	}
	for name, d := range map[string]time.Duration{"wait": r.Wait, "ttr": r.TTR} {
		if d > 0 {
			ask[name] = Duration(d)
		}
	}
	body, err := encode(ask)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Jobs []LeasedJob `json:"jobs"`
	}
	err = c.do(ctx, request{method: http.MethodPost, path: "/v1/reserve", body: body, waits: r.Wait}, &answer)
	return answer.Jobs, err
}

// Ack ends the lease of a job that is done. ErrConflict: the lease expired or already ended, and another worker may
// have the job. The same applies to the other verbs.
func (c *Client) Ack(ctx context.Context, lease string) error {
	return c.endLease(ctx, lease, "ack", nil, nil)
}

// AckResult is Ack with a result, any JSON value, for a Push that waits.
func (c *Client) AckResult(ctx context.Context, lease string, result json.RawMessage) error {
	return c.endLease(ctx, lease, "ack", map[string]any{"result": result}, nil)
}

// Release makes a job ready again after a delay. The attempt is not counted.
func (c *Client) Release(ctx context.Context, lease string, delay time.Duration) error {
	return c.endLease(ctx, lease, "release", map[string]any{"delay": Duration(delay)}, nil)
}

// Fail ends a failed attempt: the job is ready again by its schedule, or dead after its last attempt.
func (c *Client) Fail(ctx context.Context, lease, reason string) error {
	return c.endLease(ctx, lease, "fail", map[string]any{"reason": cutReason(reason)}, nil)
}

// Bury makes a job dead.
func (c *Client) Bury(ctx context.Context, lease, reason string) error {
	return c.endLease(ctx, lease, "bury", map[string]any{"reason": cutReason(reason)}, nil)
}

// Extend makes a lease last for ttr from now; 0: the TTR of the job, or of its topic.
func (c *Client) Extend(ctx context.Context, lease string, ttr time.Duration) (until time.Time, err error) {
	var ask map[string]any
	if ttr > 0 {
		ask = map[string]any{"ttr": Duration(ttr)}
	}
	var answer struct {
		LeasedUntil time.Time `json:"leased_until"`
	}
	err = c.endLease(ctx, lease, "extend", ask, &answer)
	return answer.LeasedUntil, err
}

func (c *Client) endLease(ctx context.Context, lease, verb string, ask map[string]any, answer any) error {
	var body []byte
	if ask != nil {
		var err error
		if body, err = encode(ask); err != nil {
			return err
		}
	}
	path := "/v1/leases/" + url.PathEscape(lease) + "/" + verb
	return c.do(ctx, request{method: http.MethodPost, path: path, body: body, repeatable: true}, answer)
}

// maxReason is the most bytes of a reason that the server accepts.
const maxReason = 512

func cutReason(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD") // JSON would encode each invalid byte with three
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "")
}
