package phpdq

import (
	"net/http"
	"net/url"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
)

// dialectName is the name of the protocol and of its dialect.
const dialectName = "phpdq"

// Dialect makes calls and judges responses as endpoints of php-delayqueue expect.
type Dialect struct{ zone *time.Location }

// NewDialect returns a Dialect whose calls contain times in the given zone.
func NewDialect(zone *time.Location) Dialect { return Dialect{zone} }

// Compile implements callback.Dialect. The retry_if expression is a retry mark.
func (d Dialect) Compile(retryIf string) (callback.Form, error) {
	if retryIf == "" {
		return &callForm{zone: d.zone}, nil
	}
	m, err := compileMark(retryIf)
	return &callForm{d.zone, m}, err
}

// callForm is the form of an endpoint's calls.
type callForm struct {
	zone *time.Location
	mark *mark // nil: none
}

const userAgent = "Swift framework HttpRequest class"

// Message implements callback.Form.
func (f *callForm) Message(method string, u *url.URL, r *callback.Request, now time.Time) callback.Message {
	due := r.DueAt
	if r.Attempt > 1 {
		due = now // of a retry: the time of this call
	}
	b := parseBody(r.Body).failed(r.Attempt-1).stamp(due, r.CreatedAt, f.zone)
	if method == http.MethodGet {
		called := *u
		called.RawQuery = b.query(u.RawQuery)
		return callback.Message{URL: &called, UserAgent: userAgent}
	}
	return callback.Message{
		URL: u, Body: []byte(b.form()), ContentType: "application/x-www-form-urlencoded", UserAgent: userAgent,
	}
}

// Judge implements callback.Form. Any response that is not empty is a success, whatever its status, unless the retry
// mark is true for it.
func (f *callForm) Judge(o *callback.Outcome) {
	o.Class, o.Reason = callback.Success, "ok"
	switch {
	case isEmpty(o.Answer):
		o.Class, o.Reason, o.Err = callback.Failure, "empty", "the response is empty"
		o.EndpointDown = o.Status >= 500 || o.Status == http.StatusTooManyRequests
	case f.mark != nil && f.mark.again(o.Answer):
		o.Class, o.Reason, o.Err = callback.Failure, callback.ReasonRetryIf, "retry_if is true for the response"
	}
}

// An endpoint that returns empty responses is called emptyCalls times within the TTR. These calls count as one attempt.
const (
	emptyCalls = 3
	emptyPause = 10 * time.Millisecond
)

// Repeat implements callback.Form.
func (f *callForm) Repeat(calls int, o *callback.Outcome) (pause time.Duration, again bool) {
	return emptyPause, calls < emptyCalls && o.Class == callback.Failure && isEmpty(o.Answer)
}

// isEmpty is PHP's empty().
func isEmpty(answer []byte) bool { return len(answer) == 0 || string(answer) == "0" }
