package server

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/observe/waits"
	"github.com/wakecall/wakecall/internal/store"
)

// wholeJobView is a job with its history; its body is appended.
type wholeJobView struct {
	*jobView
	ContentType string        `json:"content_type"`
	History     []attemptView `json:"history"`
	BodyGone    bool          `json:"body_gone,omitzero"`
	Waits       []waitView    `json:"waits,omitzero"`
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
