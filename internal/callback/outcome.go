package callback

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Class is the meaning of an outcome for the job.
type Class uint8

// The classes.
const (
	Success Class = iota // delivered
	Failure              // failed attempt
	Gone                 // 410: dead at once
	Snooze               // 202 with Retry-After: call again then, no attempt is counted
	Held                 // nothing was sent: Request.Begin returned an error
	Short                // no connection, because this host lacks descriptors or memory: not the endpoint's fault
)

// Outcome is the result of one call.
type Outcome struct {
	Class        Class
	Status       int           // HTTP status; 0 without an answer
	Reason       string        // ok, snooze, status, retry_if, or one of fail; bad_body, url, held
	Err          string        // for people; empty on success
	RetryAfter   time.Duration // of a 202, 429 or 503; at most a day
	Answer       []byte        // at most 64 KiB
	Truncated    bool          // there may be more of the answer
	ContentType  string        // of the answer
	StartedAt    time.Time
	Took         time.Duration
	Unsent       bool // nothing was sent, because of the job: this says nothing about the endpoint
	EndpointDown bool // no connection, timeout, TLS failure, 5xx or 429: not the job's fault
}

// Values of Outcome.Reason.
const (
	ReasonRetryIf = "retry_if" // retry_if is true for the response
	ReasonURL     = "url"      // the job's URL cannot be called, or its topic no longer allows it
)

// judge decides what a complete response means.
func (o *Outcome) judge(e *Endpoint, resp *http.Response) {
	if e.form != nil {
		e.form.Judge(o)
		return
	}
	o.EndpointDown = o.Status >= 500 || o.Status == http.StatusTooManyRequests
	o.Class, o.Reason = Failure, "status"
	switch {
	case o.Status == http.StatusGone:
		o.Class, o.Err = Gone, "the endpoint answered 410 Gone; the job will not be called again"
	case o.Status >= 300 && o.Status < 400:
		o.Err = fmt.Sprintf("the endpoint answered %d; redirects are not followed", o.Status)
	case o.Status < 200 || o.Status >= 300:
		o.Err = fmt.Sprintf("the endpoint answered %d %s", o.Status, http.StatusText(o.Status))
		if o.Status == http.StatusTooManyRequests || o.Status == http.StatusServiceUnavailable {
			o.RetryAfter, _ = retryAfter(resp.Header, time.Now())
		}
	default:
		o.judgeSuccess(e, resp)
	}
}

func (o *Outcome) judgeSuccess(e *Endpoint, resp *http.Response) {
	if e.retryIf != nil {
		retry, err := e.retryIf.run(o.Status, resp.Header, o.Answer)
		if err != nil || retry {
			o.Reason, o.Err = ReasonRetryIf, "retry_if is true for the response"
			if err != nil {
				o.Err = "evaluate retry_if on the response: " + err.Error()
			}
			if err := e.retryIf.readable(o.Answer); err != nil {
				o.Err = err.Error() + "; " + o.Err
			}
			return
		}
	}
	o.Class, o.Reason = Success, "ok"
	if wait, ok := retryAfter(resp.Header, time.Now()); ok && o.Status == http.StatusAccepted {
		o.Class, o.Reason, o.RetryAfter = Snooze, "snooze", wait
	}
}

const maxRetryAfter = 24 * time.Hour

// retryAfter parses the Retry-After header: seconds or a date (RFC 9110, 10.2.3). Fractions of a second, which some
// endpoints send, are rounded up. ok is false if there is no header, or one that cannot be read.
func retryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if t, err := http.ParseTime(v); err == nil {
		return min(max(0, t.Sub(now)), maxRetryAfter), true
	}
	seconds, err := strconv.ParseFloat(v, 64) // ±Inf if it is too large
	if strings.Trim(v, "0123456789.") != "" || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return time.Duration(min(math.Ceil(seconds), maxRetryAfter.Seconds())) * time.Second, true
}
