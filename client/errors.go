package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Errors of this package, for errors.Is.
var (
	ErrInvalid      = errors.New("invalid request")               // 400, 422
	ErrUnauthorized = errors.New("no valid token")                // 401
	ErrForbidden    = errors.New("the token does not allow this") // 403
	ErrNotFound     = errors.New("not found")                     // 404
	// 409: the job is running, the id already exists, the topic is offline or in use, the group is closed
	ErrConflict    = errors.New("conflict")
	ErrChanged     = errors.New("changed by another client") // 412
	ErrTooLarge    = errors.New("too large")                 // 413
	ErrUnavailable = errors.New("unavailable")               // 503: no shard, or the registry's database is unavailable
	ErrUnreachable = errors.New("no answer from the server") // no connection, or it was lost before the answer
)

var statusErrors = map[int]error{
	http.StatusBadRequest:            ErrInvalid,
	http.StatusUnprocessableEntity:   ErrInvalid,
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusForbidden:             ErrForbidden,
	http.StatusNotFound:              ErrNotFound,
	http.StatusConflict:              ErrConflict,
	http.StatusPreconditionFailed:    ErrChanged,
	http.StatusRequestEntityTooLarge: ErrTooLarge,
	http.StatusServiceUnavailable:    ErrUnavailable,
}

// Codes of refusals, for Error.Code. A newer server may send others: treat those by their status. The API page says
// what to do about each.
const (
	CodeInvalid          = "invalid"
	CodeTooLarge         = "too_large"
	CodeTooSlow          = "too_slow"
	CodeUnauthorized     = "unauthorized"
	CodeForbidden        = "forbidden"
	CodeNotFound         = "not_found"
	CodeTopicNotFound    = "topic_not_found"
	CodeTopicOffline     = "topic_offline"
	CodeTopicHasJobs     = "topic_has_jobs"
	CodeTopicInUse       = "topic_in_use"
	CodeTopicNotPull     = "topic_not_pull"
	CodeTopicChanged     = "topic_changed"
	CodeJobNotFound      = "job_not_found"
	CodeJobExists        = "job_exists"
	CodeJobRunning       = "job_running"
	CodeJobDead          = "job_dead"
	CodeJobNotEnded      = "job_not_ended"
	CodeJobChanged       = "job_changed"
	CodeJobGone          = "job_gone" // while its push waited
	CodeBodyGone         = "body_gone"
	CodeGroupClosed      = "group_closed"
	CodeScheduleNotFound = "schedule_not_found"
	CodeScheduleExists   = "schedule_exists"
	CodeScheduleLimit    = "schedule_limit"
	CodeTaskNotFound     = "task_not_found"
	CodeTaskOverlaps     = "task_overlaps"
	CodeTaskLimit        = "task_limit"
	CodeLeaseOver        = "lease_over"
	CodeClockAdvancing   = "clock_advancing" // of `wakecall dev`
	CodeTokenNotFound    = "token_not_found"
	CodeAlertNotFound    = "alert_not_found"
	CodeRateLimited      = "rate_limited"
	CodeQuotaExceeded    = "quota_exceeded"
	CodeUnavailable      = "unavailable"
	CodeOutcomeUnknown   = "outcome_unknown"
	CodeUnconfirmed      = "unconfirmed"
	CodeInternal         = "internal"
)

// Error is a refusal by the server: RFC 9457's problem details.
type Error struct {
	Status     int           // HTTP status
	Code       string        // what kind of problem it is, one of the constants above
	Title      string        // the status's text
	Detail     string        // what is wrong and how to fix it
	Field      string        // of the request that caused it, if any
	ID         string        // of a job that is stored, but not yet as durably as required: push it again under this id
	RetryAfter time.Duration // how long to wait before a retry; 0: not given
	RequestID  string        // X-Request-Id: finds the request in the server's log
}

func (e *Error) Error() string {
	text := cmp.Or(e.Detail, e.Title, strings.ToLower(http.StatusText(e.Status)))
	if e.Field != "" && !strings.Contains(text, e.Field) {
		text = e.Field + ": " + text
	}
	return text
}

// Is implements errors.Is.
func (e *Error) Is(target error) bool { return target != nil && statusErrors[e.Status] == target }

// problem is the body of a refusal.
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
	ID     string `json:"id"`
}

func (p problem) error() *Error {
	return &Error{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Field: p.Field, ID: p.ID}
}

func newError(resp *http.Response, body []byte) *Error {
	var p problem
	if place := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && place != "" {
		p.Detail = "redirected to " + place + "; use the URL of the server itself"
	} else if json.Unmarshal(body, &p) != nil { // a proxy in between, most likely
		p = problem{Detail: excerpt(body)}
	}
	e := p.error()
	e.Status = resp.StatusCode
	e.RequestID = resp.Header.Get("X-Request-Id")
	e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	return e
}

func excerpt(body []byte) string {
	const limit = 200
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "")), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// retryAfter parses seconds; the server does not send dates.
func retryAfter(header string) time.Duration {
	n, err := strconv.Atoi(header)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// unreachableError is an error of package net, without the URL that net/http adds.
type unreachableError struct {
	host string
	err  error
}

func (e *unreachableError) Error() string {
	cause := e.err
	var op *net.OpError
	if errors.As(cause, &op) {
		cause = op.Err // op itself repeats the address
	}
	return fmt.Sprintf("no answer from %s: %v", e.host, cause)
}

func (e *unreachableError) Unwrap() []error { return []error{ErrUnreachable, e.err} }

func (c *Client) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return &unreachableError{host: c.base.Host, err: err}
}

// isRefused reports whether no connection was made, so that no request was sent.
func isRefused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED)
}
