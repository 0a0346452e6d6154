package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/quota"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/internal/store"
)

// Problem is an error as the client sees it (RFC 9457).
type Problem struct {
	Status     int
	Code       Code   // empty: the status's
	Title      string // empty: the status's text
	Detail     string
	Field      string
	ID         string        // of a job that is stored, but not as durably as its topic requires
	RetryAfter time.Duration // of 503 and 429
	quota      *quota.ExceededError
	challenge  string // of 401: the rest of WWW-Authenticate
	cause      error  // for the log, never shown
}

func (p *Problem) Error() string {
	if p.Field != "" {
		return p.Field + ": " + p.Detail
	}
	return p.Detail
}

func (p *Problem) Unwrap() error { return p.cause }

func (p *Problem) title() string { return cmp.Or(p.Title, http.StatusText(p.Status)) }

// problemView is the JSON of a Problem (RFC 9457). Within a batch it has no type and no request id.
type problemView struct {
	Type      string `json:"type,omitzero"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Code      Code   `json:"code"`
	Detail    string `json:"detail"`
	Field     string `json:"field,omitzero"`
	ID        string `json:"id,omitzero"`
	RequestID string `json:"request_id,omitzero"`
}

// document returns the problem as the whole answer to a request.
func (p *Problem) document(requestID string) *problemView {
	v := p.view()
	v.Type, v.RequestID = "about:blank", requestID
	return &v
}

func (p *Problem) view() problemView {
	return problemView{Title: p.title(), Status: p.Status, Code: cmp.Or(p.Code, codeOf(p.Status)), Detail: p.Detail,
		Field: p.Field, ID: p.ID}
}

// badValue refuses a malformed value.
func badValue(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// rangeError refuses a value that is well-formed but too small or too large.
func rangeError(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusUnprocessableEntity, Detail: fmt.Sprintf(format, args...)}
}

// in sets the field of a problem.
func (p *Problem) in(field string) *Problem {
	p.Field, p.Detail = field, field+": "+p.Detail
	return p
}

func badField(field, format string, args ...any) error { return badValue(format, args...).in(field) }

func outOfRange(field, format string, args ...any) error {
	return rangeError(format, args...).in(field)
}

func unknownField(name string, known ...string) error {
	return &Problem{
		Status: http.StatusBadRequest, Field: clip(name),
		Detail: "unknown field " + strconv.Quote(clip(name)) + "; must be one of " + strings.Join(known, ", "),
	}
}

func tooLarge(field, format string, args ...any) error {
	return &Problem{Status: http.StatusRequestEntityTooLarge, Field: field, Detail: fmt.Sprintf(format, args...)}
}

func notFound(code Code, format string, args ...any) error {
	return &Problem{Status: http.StatusNotFound, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func conflict(code Code, format string, args ...any) error {
	return &Problem{Status: http.StatusConflict, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func unavailable(cause error, after time.Duration, format string, args ...any) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf(format, args...), RetryAfter: after,
		cause: cause}
}

// problemOf translates errors of other packages.
func problemOf(err error) *Problem {
	var (
		problem *Problem
		away    *store.UnavailableError
		limit   *pull.LimitError
		field   *registry.FieldError
		routing *echo.HTTPError
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &away):
		p := unavailable(err, away.RetryAfter, "%s", unavailableDetail(away))
		p.Code = unavailableCode(away)
		return p
	case errors.As(err, &limit):
		return tooManyTopics(limit)
	case errors.As(err, &field):
		return fieldProblem(err, field)
	case errors.As(err, &routing):
		return &Problem{Status: routing.Code}
	}
	return storeProblem(err)
}

// waitsRetry is how long a worker should pause after the limit of waits was reached. Other workers' waits end in the
// meantime.
const waitsRetry = 5 * time.Second

func tooManyTopics(err error) *Problem {
	p := &Problem{Status: http.StatusTooManyRequests, Detail: err.Error(), RetryAfter: waitsRetry}
	return p.in("topics")
}

func storeProblem(err error) *Problem {
	p := &Problem{Detail: err.Error(), cause: err}
	switch {
	case errors.Is(err, store.ErrNotFound):
		p.Status, p.Code = http.StatusNotFound, codeJobNotFound
	case errors.As(err, new(*registry.TopicInUseError)):
		p.Status, p.Code = http.StatusConflict, codeTopicInUse
		p.Detail += "; delete them, or use ?force=true"
	case errors.Is(err, registry.ErrNoTopic):
		p.Status, p.Code = http.StatusNotFound, codeTopicNotFound
	case errors.Is(err, registry.ErrNoToken):
		p.Status, p.Code = http.StatusNotFound, codeTokenNotFound
	case errors.Is(err, registry.ErrNoSchedule):
		p.Status, p.Code = http.StatusNotFound, codeScheduleNotFound
	case errors.Is(err, recurring.ErrTopicOffline), errors.Is(err, registry.ErrOffline):
		p.Status, p.Code = http.StatusConflict, codeTopicOffline
	case errors.Is(err, store.ErrMoved):
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, time.Second
	case errors.Is(err, store.ErrRunning):
		p.Status, p.Code = http.StatusConflict, codeJobRunning
	case errors.Is(err, store.ErrDuplicate):
		p.Status, p.Code = http.StatusConflict, codeJobExists
	case errors.Is(err, store.ErrDead):
		p.Status, p.Code = http.StatusConflict, codeJobDead
	case errors.Is(err, store.ErrClosed):
		p.Status, p.Code, p.Field = http.StatusConflict, codeGroupClosed, "group"
		p.Detail = "group: it is closed; GET /v1/groups/{group} says until when"
	case errors.Is(err, registry.ErrChanged):
		p.Status, p.Code = http.StatusPreconditionFailed, codeTopicChanged
	case errors.Is(err, store.ErrTooFar):
		p.Status, p.Field = http.StatusUnprocessableEntity, "due_at"
	case errors.Is(err, store.ErrCursor):
		p.Status, p.Field = http.StatusBadRequest, "cursor"
		p.Detail = "cursor: not a cursor of this list; omit it to start over"
	case errors.Is(err, registry.ErrText):
		p.Status = http.StatusUnprocessableEntity
	case errors.Is(err, registry.ErrUnavailable):
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, registryRetry
		p.Detail = "registry's database unreachable: topics and tokens cannot be changed; pushes and " +
			"callbacks continue"
	case errors.Is(err, seal.ErrKey):
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, keyRetry
		p.Detail = "this host's secret key differs from the registry's, so it can neither read nor store secrets"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Code, p.RetryAfter = http.StatusServiceUnavailable, codeUnknown, time.Second
		p.Detail = "request canceled before it was done"
	default:
		p.Status = http.StatusInternalServerError
		p.Detail = "internal error; see the server's log for this request id"
	}
	return p
}

// keyRetry is how long a client should wait before it retries a request that only a host with another key can serve.
const keyRetry = time.Minute

// registryRetry is how long a client should wait before it retries an edit. The registry polls its database about that
// often.
const registryRetry = 5 * time.Second

func unavailableCode(e *store.UnavailableError) Code {
	switch {
	case e.Stored:
		return codeUnconfirmed
	case store.IsUnanswered(e), e.Reason == "journal":
		return codeUnknown
	}
	return codeUnavailable
}

func unavailableDetail(e *store.UnavailableError) string {
	if store.IsUnanswered(e) {
		return "outcome unknown: the shard's reply was lost (" + e.Reason + "); repeat the request with the same id"
	}
	switch e.Reason {
	case store.Replica.String(), store.Absent:
		return e.Err.Error() // written for clients
	case "full":
		return "Redis is out of memory; it accepts jobs again once some are delivered"
	case "readonly":
		return "Redis refuses writes"
	case "journal":
		return "journal not writable, so the push is not confirmed; it is safe to retry with the same id"
	}
	return "no shard accepts the request (" + e.Reason + "); try again later"
}

func fieldProblem(err error, field *registry.FieldError) *Problem {
	p := &Problem{Status: http.StatusBadRequest, Field: field.Field, Detail: err.Error()}
	if field.OutOfRange {
		p.Status = http.StatusUnprocessableEntity
	}
	return p
}

// fail answers a request with an error.
func (s *Server) fail(err error, c echo.Context) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusServiceUnavailable {
		s.log.Error("request failed",
			"request_id", requestID(c), "method", c.Request().Method, "path", c.Path(), "error", err)
	}
	if c.Response().Committed {
		return
	}
	s.finishProblem(c, p)
	h := c.Response().Header()
	setProblemHeaders(h, p)
	_ = s.answerAs(c, p.Status, problemType, p.document(requestID(c))) // the client may have disconnected
}

// finishProblem adds details of the request.
func (s *Server) finishProblem(c echo.Context, p *Problem) {
	r := c.Request()
	if p.Code == codeUnknown && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		p.Code, p.Detail = codeUnavailable, "shard does not answer; try again later" // a read changes nothing
	}
	if p.Detail != "" {
		return
	}
	switch p.Status {
	case http.StatusNotFound:
		p.Detail = "no route " + clip(r.URL.Path) + "; /docs lists them"
	case http.StatusMethodNotAllowed:
		allow := allowed(c)
		c.Response().Header().Set(echo.HeaderAllow, allow)
		p.Detail = clip(r.Method) + " is not allowed; use one of " + allow
	}
}

// allowed returns the Allow header of a route: HEAD is allowed wherever GET is.
func allowed(c echo.Context) string {
	allow, _ := c.Get(echo.ContextKeyHeaderAllow).(string)
	return withHead(allow)
}

func setProblemHeaders(h http.Header, p *Problem) {
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		seconds := int64(math.Ceil(p.RetryAfter.Seconds()))
		h.Set("Retry-After", strconv.FormatInt(max(seconds, 1), 10))
	}
	if p.quota != nil {
		setQuotaHeaders(h, p.quota)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer"+p.challenge)
	}
}

// clip shortens a client's input for a message.
func clip(s string) string { return printable.Clip(s, 80) }
