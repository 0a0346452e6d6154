package server

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/observe/waits"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Constant header values, so that answers do not allocate them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)

// answering replaces invalid UTF-8 in an endpoint's response with U+FFFD.
var answering = jsontext.AllowInvalidUTF8(true)

// answer writes v as JSON.
func (s *Server) answer(c echo.Context, status int, v any) error {
	return s.answerAs(c, status, jsonType, v)
}

func (s *Server) answerAs(c echo.Context, status int, contentType []string, v any) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	if err := json.MarshalWrite(out, v, answering); err != nil {
		return err
	}
	return write(c, status, contentType, out.b)
}

func write(c echo.Context, status int, contentType []string, body []byte) error {
	w := c.Response()
	h := w.Header()
	h[echo.HeaderContentType] = contentType
	h[echo.HeaderContentLength] = []string{strconv.Itoa(len(body))} // net/http sends flushed and long answers in chunks
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// instant is a time in the API's format.
type instant time.Time

// AppendText writes RFC 3339 in UTC with milliseconds. It appends them itself, because AppendFormat is three times as
// fast without them.
func (i *instant) AppendText(b []byte) ([]byte, error) {
	t := time.Time(*i)
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'), nil
}

// IsZero implements omitzero.
func (i *instant) IsZero() bool { return time.Time(*i).IsZero() }

// problemView is the JSON of a Problem (RFC 9457). Within a batch it has no type and no request id.
type problemView struct {
	Type      string `json:"type,omitzero"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
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
	return problemView{Title: p.title(), Status: p.Status, Detail: p.Detail, Field: p.Field, ID: p.ID}
}

// jobView is the JSON of a job, without its history and body.
type jobView struct {
	Topic     string      `json:"topic"`
	ID        string      `json:"id"`
	State     store.State `json:"state"`
	DueAt     instant     `json:"due_at"`
	Priority  string      `json:"priority"`
	Attempts  int         `json:"attempts"`
	CreatedAt instant     `json:"created_at"`

	// Overrides of the topic's settings.
	TTR         registry.Duration   `json:"ttr,omitzero"`
	MaxAttempts int                 `json:"max_attempts,omitzero"`
	ExpiresAt   instant             `json:"expires_at,omitzero"`
	Headers     map[string]string   `json:"headers,omitzero"`
	Retry       []registry.Duration `json:"retry,omitzero"`

	// Fields that depend on its state.
	NextAttemptAt instant `json:"next_attempt_at,omitzero"`
	LeaseUntil    instant `json:"lease_until,omitzero"`
	DeadReason    string  `json:"dead_reason,omitzero"`
	DeadAt        instant `json:"dead_at,omitzero"`
	FinishedAt    instant `json:"finished_at,omitzero"`
	LateMS        *int64  `json:"late_ms,omitzero"`

	Duplicate bool `json:"duplicate,omitzero"` // in the answer to a push
}

func viewOfJob(j *store.Job) *jobView {
	v := &jobView{
		Topic: j.Topic, ID: j.ID, State: j.State, DueAt: instant(j.DueAt), Priority: j.Priority.String(),
		Attempts: j.Attempts, CreatedAt: instant(j.CreatedAt),
		TTR: registry.Duration(j.TTR), MaxAttempts: j.MaxAttempts, ExpiresAt: instant(j.ExpiresAt), Headers: j.Headers,
	}
	for _, wait := range j.Retry {
		v.Retry = append(v.Retry, registry.Duration(wait))
	}
	switch {
	case j.State == store.Delayed && !j.NextAt.Equal(j.DueAt):
		v.NextAttemptAt = instant(j.NextAt)
	case j.State == store.Running:
		v.LeaseUntil = instant(j.LeaseUntil)
	case j.State == store.Dead:
		v.DeadReason, v.DeadAt = j.DeadReason, instant(j.DeadAt)
	case j.State == store.Finished:
		late := j.Late().Milliseconds()
		v.FinishedAt, v.LateMS = instant(j.FinishedAt), &late
	}
	return v
}

func viewOfPushed(r *store.Result) *jobView {
	v := viewOfJob(&r.Job)
	v.Duplicate = r.Duplicate
	return v
}

type attemptView struct {
	N         int     `json:"n"`
	StartedAt instant `json:"started_at"`
	TookMS    float64 `json:"took_ms"`
	Status    int     `json:"status"`
	Error     string  `json:"error"`
	Answer    string  `json:"answer"`
}

func viewOfHistory(history []store.Attempt) []attemptView {
	views := make([]attemptView, len(history))
	for i, a := range history {
		views[i] = attemptView{
			N: a.N, StartedAt: instant(time.UnixMilli(a.StartedAt)), TookMS: a.TookMS, Status: a.Status, Error: a.Error,
			Answer: a.Answer,
		}
	}
	return views
}

// wholeJobView is a job with its history; its body is appended.
type wholeJobView struct {
	*jobView
	ContentType string        `json:"content_type"`
	History     []attemptView `json:"history"`
	BodyGone    bool          `json:"body_gone,omitzero"`
	Waits       []waitView    `json:"waits,omitzero"`
}

// waitView is a reason why a job waits.
type waitView struct {
	Reason   waits.Reason `json:"reason"`
	Until    instant      `json:"until,omitzero"`
	By       string       `json:"by,omitzero"`
	Why      string       `json:"why,omitzero"`
	Since    instant      `json:"since,omitzero"`
	Limit    float64      `json:"limit,omitzero"`
	Running  int64        `json:"running,omitzero"`
	Jobs     int64        `json:"jobs,omitzero"`
	Attempt  int          `json:"attempt,omitzero"`
	Failures int64        `json:"failures,omitzero"`
	Shard    string       `json:"shard,omitzero"`
	Error    string       `json:"error,omitzero"`
}

func viewOfWaits(list []waits.Wait) []waitView {
	var views []waitView
	for _, w := range list {
		views = append(views, waitView{
			Reason: w.Reason, Until: instant(w.Until), By: w.By, Why: w.Why, Since: instant(w.Since), Limit: w.Limit,
			Running: w.Running, Jobs: w.Jobs, Attempt: w.Attempt, Failures: w.Failures, Shard: w.Shard, Error: w.Error,
		})
	}
	return views
}

func (s *Server) answerWhole(c echo.Context, j *store.Job, list []waits.Wait) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	view := wholeJobView{
		viewOfJob(j), shownType(j.ContentType), viewOfHistory(j.History), j.BodyGone, viewOfWaits(list),
	}
	if err := json.MarshalWrite(out, &view, answering); err != nil {
		return err
	}
	if !j.BodyGone {
		out.appendBody(j)
	}
	return write(c, http.StatusOK, jsonType, out.b)
}

// appendBody adds the body to the object at the end of the buffer. A JSON body is kept as it was pushed; an encoder
// would remove its white space. Other text becomes a string, and anything else is encoded in base64.
func (b *buffer) appendBody(j *store.Job) {
	out := b.b[:len(b.b)-len("}")]
	switch {
	case isJSON(j.ContentType) && isBody(j.Body):
		out = append(append(out, `,"body":`...), j.Body...)
	case utf8.Valid(j.Body):
		out, _ = jsontext.AppendQuote(append(out, `,"body":`...), j.Body)
	default:
		out = append(base64.StdEncoding.AppendEncode(append(out, `,"body_base64":"`...), j.Body), '"')
	}
	b.b = append(out, '}')
}

func shownType(contentType string) string { return cmp.Or(contentType, "application/json") }

func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// isBody reports whether a text can be the body of a JSON push.
func isBody(body []byte) bool {
	return utf8.Valid(body) && jsontext.Value(body).IsValid(asSent) && !tooDeep(body)
}
