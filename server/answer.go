package server

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/journal/member"
	"github.com/wakecall/wakecall/internal/queue"
)

// Constant header values, so that answers do not allocate them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)

// countedByHTTP is the size up to which net/http sets an answer's Content-Length by itself; it sends longer ones in
// chunks.
const countedByHTTP = 2048

// answering replaces invalid UTF-8 in an endpoint's answer with U+FFFD.
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

// appendList appends a member that is an array of n elements.
func appendList(b []byte, name string, n int, element func(b []byte, i int) []byte) []byte {
	b = append(append(append(b, '"'), name...), `":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = element(b, i)
	}
	return append(b, ']')
}

// answerWith writes the JSON that fill appends.
func (s *Server) answerWith(c echo.Context, status int, fill func(b []byte) []byte) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	out.b = fill(out.b)
	return write(c, status, jsonType, out.b)
}

func write(c echo.Context, status int, contentType []string, body []byte) error {
	w := c.Response()
	w.Header()[echo.HeaderContentType] = contentType
	if len(body) >= countedByHTTP {
		w.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// instant is a time in the API's format.
type instant time.Time

// AppendText writes RFC 3339 in UTC with milliseconds.
func (i *instant) AppendText(b []byte) ([]byte, error) {
	return member.AppendTime(b, time.Time(*i)), nil
}

// IsZero implements omitzero.
func (i *instant) IsZero() bool { return time.Time(*i).IsZero() }

// problemView is the JSON of a Problem (RFC 9457). Inside a batch's answer it has no type and request id.
type problemView struct {
	Type      string `json:"type,omitzero"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Field     string `json:"field,omitzero"`
	ID        string `json:"id,omitzero"`
	RequestID string `json:"request_id,omitzero"`
}

func (p *Problem) view() problemView {
	return problemView{Title: p.title(), Status: p.Status, Detail: p.Detail, Field: p.Field, ID: p.ID}
}

// appendJob appends a job without its body, history and closing brace.
func appendJob(b []byte, j *queue.Job) []byte {
	b = append(b, '{')
	b = member.Text(b, "topic", j.Topic)
	b = member.Text(b, "id", j.ID)
	b = member.Text(b, "state", j.State)
	b = member.Instant(b, "due_at", j.DueAt)
	b = member.Text(b, "priority", j.Priority.String())
	b = member.Int(b, "attempts", j.Attempts)
	b = member.Instant(b, "created_at", j.CreatedAt)
	b = appendOwn(b, j)
	return appendSituation(b, j)
}

// appendOwn appends the settings that a job has in place of its topic's.
func appendOwn(b []byte, j *queue.Job) []byte {
	if j.TTR != 0 {
		b = member.Text(b, "ttr", j.TTR.String())
	}
	if j.MaxAttempts != 0 {
		b = member.Int(b, "max_attempts", j.MaxAttempts)
	}
	if !j.ExpiresAt.IsZero() {
		b = member.Instant(b, "expires_at", j.ExpiresAt)
	}
	if j.Headers != nil {
		b = member.Value(b, "headers", j.Headers)
	}
	if len(j.Retry) == 0 {
		return b
	}
	waits := make([]string, len(j.Retry))
	for i, d := range j.Retry {
		waits[i] = d.String()
	}
	return member.Value(b, "retry", waits)
}

// appendSituation appends the members that depend on a job's state.
func appendSituation(b []byte, j *queue.Job) []byte {
	switch {
	case j.State == queue.Delayed && !j.NextAt.IsZero() && !j.NextAt.Equal(j.DueAt):
		b = member.Instant(b, "next_attempt_at", j.NextAt)
	case j.State == queue.Running:
		b = member.Instant(b, "lease_until", j.LeaseUntil)
	case j.State == queue.Dead:
		b = member.Text(b, "dead_reason", j.DeadReason)
		b = member.Instant(b, "dead_at", j.DeadAt)
	case j.State == queue.Finished:
		b = member.Instant(b, "finished_at", j.FinishedAt)
		b = member.Int(b, "late_ms", j.Late().Milliseconds())
	}
	return b
}

// appendPushed appends the answer to a push.
func appendPushed(b []byte, r *queue.Result) []byte {
	b = appendJob(b, &r.Job)
	if r.Duplicate {
		b = member.Raw(b, "duplicate", isTrue)
	}
	return append(b, '}')
}

type attemptView struct {
	N         int     `json:"n"`
	StartedAt instant `json:"started_at"`
	TookMS    float64 `json:"took_ms"`
	Status    int     `json:"status"`
	Error     string  `json:"error"`
	Answer    string  `json:"answer"`
}

func viewOfHistory(history []queue.Attempt) []attemptView {
	views := make([]attemptView, len(history))
	for i, a := range history {
		views[i] = attemptView{
			N: a.N, StartedAt: instant(time.UnixMilli(a.StartedAt)), TookMS: a.TookMS, Status: a.Status, Error: a.Error,
			Answer: a.Answer,
		}
	}
	return views
}

// answerWhole answers with a job and its history and body.
func (s *Server) answerWhole(c echo.Context, j *queue.Job) error {
	return s.answerWith(c, http.StatusOK, func(b []byte) []byte {
		b = appendJob(b, j)
		b = member.Text(b, "content_type", shownType(j.ContentType))
		b = member.Value(b, "history", viewOfHistory(j.History))
		if j.BodyGone {
			return append(member.Raw(b, "body_gone", isTrue), '}')
		}
		return append(appendBody(b, j), '}')
	})
}

// appendBody appends a JSON body byte for byte, other text as a string, and any other body in base64.
func appendBody(b []byte, j *queue.Job) []byte {
	switch {
	case isJSON(j.ContentType) && isBody(j.Body):
		return member.Raw(b, "body", j.Body)
	case utf8.Valid(j.Body):
		return member.Text(b, "body", j.Body)
	}
	return member.Value(b, "body_base64", j.Body)
}

var isTrue = []byte("true")

func shownType(contentType string) string { return cmp.Or(contentType, "application/json") }

func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// isBody reports whether a text can be the body of a JSON push.
func isBody(body []byte) bool {
	return utf8.Valid(body) && decode(body, func(d *decoder) error {
		_, err := d.raw()
		return err
	}) == nil
}
