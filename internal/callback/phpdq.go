package callback

import (
	"net/http"
	"time"

	"github.com/wakecall/wakecall/internal/callback/phpdq"
)

// DialectPHPDQ makes calls, and judges their answers, as the endpoints of a php-delayqueue expect it.
const DialectPHPDQ = "phpdq"

type phpdqDialect struct{ mark *phpdq.Mark } // nil: none

func newPHPDQ(mark string) (*phpdqDialect, error) {
	if mark == "" {
		return &phpdqDialect{}, nil
	}
	m, err := phpdq.CompileMark(mark)
	return &phpdqDialect{m}, err
}

// CheckRetryIf compiles a retry_if expression in a dialect.
func CheckRetryIf(dialect, source string) (err error) {
	if dialect == DialectPHPDQ {
		_, err = newPHPDQ(source)
		return err
	}
	_, err = CompileRetryIf(source)
	return err
}

// TryRetryIf evaluates a retry_if expression on an example answer.
func TryRetryIf(dialect, source string, status int, h http.Header, answer []byte) (retry bool, err error) {
	if dialect != DialectPHPDQ {
		p, err := CompileRetryIf(source)
		if err != nil {
			return false, err
		}
		return p.run(status, h, answer)
	}
	d, err := newPHPDQ(source)
	return err == nil && d.mark != nil && d.mark.Again(answer), err
}

// An endpoint whose answers are empty is called phpdqCalls times within the TTR, which count as one attempt.
const (
	phpdqCalls = 3
	phpdqPause = 10 * time.Millisecond
)

// repeats reports whether the endpoint is called again at once after n calls.
func (d *phpdqDialect) repeats(n int, o *Outcome) bool {
	return d != nil && n < phpdqCalls && o.Class == Failure && isEmpty(o.Answer)
}

// isEmpty is PHP's empty.
func isEmpty(answer []byte) bool { return len(answer) == 0 || string(answer) == "0" }

const phpdqAgent = "Swift framework HttpRequest class"

func (c *Caller) phpdqMessage(e *Endpoint, r *Request, now time.Time) (m content) {
	due := r.DueAt
	if r.Attempt > 1 {
		due = now // for a retry: the time of this call
	}
	body := phpdq.Parse(r.Body).Failed(r.Attempt-1).Stamp(due, r.CreatedAt, c.phpZone)
	m.job = r.Headers
	m.own = append(c.ownHeaders(r), field{"User-Agent", phpdqAgent})
	m.url = e.url
	if e.method == http.MethodGet {
		u := *e.url
		u.RawQuery = body.Query(u.RawQuery)
		m.url = &u
	} else {
		m.body = []byte(body.Form())
		m.own = append(m.own, field{"Content-Type", "application/x-www-form-urlencoded"})
	}
	m.sign(e, r, now)
	return m
}

// judge treats any answer but an empty one as a success, whatever its status, unless the retry mark is true for it.
func (d *phpdqDialect) judge(o *Outcome) {
	o.Class, o.Reason = Success, "ok"
	switch {
	case isEmpty(o.Answer):
		o.Class, o.Reason, o.Err = Failure, "empty", "the answer is empty"
		o.EndpointDown = o.Status >= 500 || o.Status == http.StatusTooManyRequests
	case d.mark != nil && d.mark.Again(o.Answer):
		o.Class, o.Reason, o.Err = Failure, "retry_if", "retry_if is true for the answer"
	}
}
