package server

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
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
	Waits       []waits.Wait  `json:"waits,omitzero"`

	// Of a job that a push waited for, within two minutes of its end.
	Result    jsontext.Value `json:"result,omitzero"`
	Truncated bool           `json:"truncated,omitzero"`
}

type attemptView struct {
	N         int       `json:"n"`
	StartedAt time.Time `json:"started_at"`
	TookMS    float64   `json:"took_ms"`
	Status    int       `json:"status"`
	Error     string    `json:"error"`
	Answer    string    `json:"answer"`
}

func viewOfHistory(history []store.Attempt) []attemptView {
	views := make([]attemptView, len(history))
	for i, a := range history {
		views[i] = attemptView{
			N: a.N, StartedAt: time.UnixMilli(a.StartedAt), TookMS: a.TookMS, Status: a.Status, Error: a.Error,
			Answer: a.Answer,
		}
	}
	return views
}

func (s *Server) answerWhole(c echo.Context, j *store.Job, list []waits.Wait) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	view := wholeJobView{
		jobView: viewOfJob(j), ContentType: shownType(j.ContentType), History: viewOfHistory(j.History),
		BodyGone: j.BodyGone, Waits: list,
	}
	if a := j.Answer; a != nil {
		view.Result, view.Truncated = jsontext.Value(a.Result), a.Truncated
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
// would remove its white space. Other text becomes a string. Anything else, JSON that some readers refuse included, is
// encoded in base64: a reader that fails at one body would lose all jobs of the answer.
func (b *buffer) appendBody(j *store.Job) {
	out := b.b[:len(b.b)-len("}")]
	switch {
	case isJSON(j.ContentType) && isPortable(j.Body):
		out = append(append(out, `,"body":`...), j.Body...)
	case isText(j.Body) && !(isJSON(j.ContentType) && jsontext.Value(j.Body).IsValid(asSent)):
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

// isPortable reports whether a body is JSON that every reader accepts: I-JSON (RFC 7493) of at most maxDepth levels.
// Its names are unique, its strings are text, and its numbers have the size of a double; they may have more digits.
func isPortable(body []byte) bool {
	if !jsontext.Value(body).IsValid() || tooDeep(body) {
		return false
	}
	if isText(body) && !bytes.Contains(body, []byte(`\u`)) && !longNumber(body) {
		return true // without reading the tokens, which takes ten times as long
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		t, err := d.ReadToken()
		switch {
		case err != nil:
			return true // the end: the body is valid
		case t.Kind() == jsontext.KindNumber && !isDouble(t.String()),
			t.Kind() == jsontext.KindString && !isText([]byte(t.String())):
			return false
		}
	}
}

// longNumber reports whether the body may have a number with an exponent, or with more digits than a double has.
func longNumber(body []byte) bool {
	digits := 0
	for _, c := range body {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case digits > 0 && (c == 'e' || c == 'E'):
			return true
		default:
			digits = 0
		}
		if digits > 308 {
			return true
		}
	}
	return false
}

// isDouble reports whether a number is in the range of a double. Some readers refuse a longer exponent even of zero.
func isDouble(number string) bool {
	_, err := strconv.ParseFloat(number, 64)
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	return err == nil && len(strings.TrimLeft(exponent, "+-0")) <= 3
}

// isText reports whether s is UTF-8 without noncharacters, which RFC 7493 excludes, too.
func isText(s []byte) bool {
	return utf8.Valid(s) && !bytes.ContainsFunc(s, func(r rune) bool {
		return r >= '\ufdd0' && unicode.Is(unicode.Noncharacter_Code_Point, r)
	})
}
