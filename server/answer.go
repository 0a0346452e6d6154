package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Header values that never change, so that answers do not allocate them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)

// countedByHTTP is the size up to which net/http finds an answer's length by itself; it sends longer ones in chunks.
const countedByHTTP = 2048

// answering replaces bytes of an endpoint's answer that are not UTF-8 by U+FFFD.
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
	w.Header()[echo.HeaderContentType] = contentType
	if len(body) >= countedByHTTP {
		w.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// instant is a time as the API shows it.
type instant time.Time

// AppendText writes RFC 3339 in UTC with milliseconds.
func (i *instant) AppendText(b []byte) ([]byte, error) {
	// AppendFormat is three times as fast with this layout as with one that has milliseconds, which cost a batch a tenth.
	b = time.Time(*i).UTC().AppendFormat(b, time.RFC3339)
	ms := time.Time(*i).Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'), nil
}

// IsZero is for omitzero.
func (i *instant) IsZero() bool { return time.Time(*i).IsZero() }

// problemView is a Problem (RFC 9457), also inside a batch's answer, where type and request id are left out.
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

// jobView is a job without body and history.
type jobView struct {
	Topic         string              `json:"topic"`
	ID            string              `json:"id"`
	State         queue.State         `json:"state"`
	DueAt         instant             `json:"due_at"`
	Priority      string              `json:"priority"`
	Attempts      int                 `json:"attempts"`
	CreatedAt     instant             `json:"created_at"`
	TTR           registry.Duration   `json:"ttr,omitzero"`          // unless it is the topic's
	MaxAttempts   int                 `json:"max_attempts,omitzero"` // unless it is the topic's
	ExpiresAt     instant             `json:"expires_at,omitzero"`
	Headers       map[string]string   `json:"headers,omitzero"` // beside the topic's
	Retry         []registry.Duration `json:"retry,omitzero"`   // unless it is the topic's
	NextAttemptAt instant             `json:"next_attempt_at,omitzero"`
	LeaseUntil    instant             `json:"lease_until,omitzero"`
	DeadReason    *string             `json:"dead_reason,omitzero"`
	DeadAt        instant             `json:"dead_at,omitzero"`
	FinishedAt    instant             `json:"finished_at,omitzero"`
	LateMS        *int64              `json:"late_ms,omitzero"`
	Duplicate     bool                `json:"duplicate,omitzero"`
}

func viewOfJob(j *queue.Job) jobView {
	v := jobView{
		Topic: j.Topic, ID: j.ID, State: j.State, DueAt: instant(j.DueAt), Priority: j.Priority.String(),
		Attempts: j.Attempts, CreatedAt: instant(j.CreatedAt), TTR: registry.Duration(j.TTR), MaxAttempts: j.MaxAttempts,
		ExpiresAt: instant(j.ExpiresAt), Headers: j.Headers,
	}
	for _, d := range j.Retry {
		v.Retry = append(v.Retry, registry.Duration(d))
	}
	switch {
	case j.State == queue.Delayed && !j.NextAt.Equal(j.DueAt):
		v.NextAttemptAt = instant(j.NextAt)
	case j.State == queue.Running:
		v.LeaseUntil = instant(j.LeaseUntil)
	case j.State == queue.Dead:
		v.DeadReason, v.DeadAt = &j.DeadReason, instant(j.DeadAt)
	case j.State == queue.Finished:
		late := j.Late().Milliseconds()
		v.FinishedAt, v.LateMS = instant(j.FinishedAt), &late
	}
	return v
}

// viewOfPush is the answer to a push.
func viewOfPush(r *queue.Result) jobView {
	v := viewOfJob(&r.Job)
	v.Duplicate = r.Duplicate
	return v
}

// wholeView is a job with its history, and a body that is not JSON.
type wholeView struct {
	Job         jobView       `json:",embed"`
	ContentType string        `json:"content_type"`
	BodyText    *string       `json:"body,omitzero"`
	BodyBase64  []byte        `json:"body_base64,omitzero"`
	BodyGone    bool          `json:"body_gone,omitzero"`
	History     []attemptView `json:"history"`
}

type attemptView struct {
	N         int     `json:"n"`
	StartedAt instant `json:"started_at"`
	TookMS    float64 `json:"took_ms"`
	Status    int     `json:"status"`
	Error     string  `json:"error"`
	Answer    string  `json:"answer"`
}

// answerWhole shows a JSON body byte for byte, other text as a string, and any other body in base64.
func (s *Server) answerWhole(c echo.Context, j *queue.Job) error {
	v := wholeView{Job: viewOfJob(j), ContentType: shownType(j.ContentType)}
	for _, a := range j.History {
		v.History = append(v.History, attemptView{
			N: a.N, StartedAt: instant(time.UnixMilli(a.StartedAt)), TookMS: a.TookMS, Status: a.Status, Error: a.Error,
			Answer: a.Answer,
		})
	}
	embeddable := !j.BodyGone && isJSON(j.ContentType) && isBody(j.Body)
	switch {
	case j.BodyGone:
		v.BodyGone = true
	case embeddable:
	case utf8.Valid(j.Body):
		text := string(j.Body)
		v.BodyText = &text
	default:
		v.BodyBase64 = j.Body
	}
	out := s.buffers.get()
	defer s.buffers.put(out)
	if err := json.MarshalWrite(out, &v, answering); err != nil {
		return err
	}
	if embeddable { // appended, since the encoder would remove its white space
		out.b = append(out.b[:len(out.b)-len("}")], `,"body":`...)
		out.b = append(append(out.b, j.Body...), '}')
	}
	return write(c, http.StatusOK, jsonType, out.b)
}

func shownType(contentType string) string {
	if contentType == "" {
		return "application/json"
	}
	return contentType
}

func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// isBody says whether a text can be the body of a JSON push.
func isBody(body []byte) bool {
	return utf8.Valid(body) && decode(body, func(d *decoder) error {
		_, err := d.raw()
		return err
	}) == nil
}
