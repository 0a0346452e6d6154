package server

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Values of headers that never change, so that no answer allocates them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
	closing     = []string{"close"}
)

// countedByHTTP is up to which size net/http finds out the length of an answer by itself; a longer one would be sent in chunks.
const countedByHTTP = 2048

// answer writes a whole answer.
func answer(c echo.Context, status int, contentType []string, body []byte) error {
	w := c.Response()
	w.Header()[echo.HeaderContentType] = contentType
	if len(body) >= countedByHTTP {
		w.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// appendInstant writes a time with its milliseconds. They are put behind the seconds here because AppendFormat is three times as fast with the
// layouts of RFC 3339 as with any other, and every push is answered with two times.
func appendInstant(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
}

// appendString writes a JSON string. What is not UTF-8 becomes U+FFFD: a document must not become unreadable because an
// endpoint answered garbage.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, c)
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	if c >= utf8.RuneSelf {
		return append(b, "\ufffd"...)
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

func appendProblem(b []byte, p *Problem, requestID string) []byte {
	b = append(b, `{"type":"about:blank","title":`...)
	b = appendProblemMembers(b, p)
	if requestID != "" {
		b = append(b, `,"request_id":`...)
		b = appendString(b, requestID)
	}
	return append(b, '}')
}

func appendProblemMembers(b []byte, p *Problem) []byte {
	b = appendString(b, p.title())
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	b = append(b, `,"detail":`...)
	b = appendString(b, p.Detail)
	if p.Field != "" {
		b = append(b, `,"field":`...)
		b = appendString(b, p.Field)
	}
	if p.ID != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, p.ID)
	}
	return b
}

// appendMemberProblem writes a refused member of a batch.
func appendMemberProblem(b []byte, p *Problem) []byte {
	b = append(b, `{"error":{"title":`...)
	b = appendProblemMembers(b, p)
	return append(b, '}', '}')
}

// appendJob writes a job as it is shown everywhere: without body and history, and still open at its end.
func appendJob(b []byte, j *queue.Job) []byte {
	b = append(b, `{"topic":`...)
	b = appendString(b, j.Topic)
	b = append(b, `,"id":`...)
	b = appendString(b, j.ID)
	b = append(b, `,"state":"`...)
	b = append(b, j.State...)
	b = append(b, `","due_at":`...)
	b = appendInstant(b, j.DueAt)
	b = append(b, `,"priority":"`...)
	b = append(b, j.Priority.String()...)
	b = append(b, `","attempts":`...)
	b = strconv.AppendInt(b, int64(j.Attempts), 10)
	b = append(b, `,"created_at":`...)
	b = appendInstant(b, j.CreatedAt)
	b = appendOwn(b, j)
	return appendSituation(b, j)
}

// appendOwn writes what the push set instead of the topic.
func appendOwn(b []byte, j *queue.Job) []byte {
	if j.TTR > 0 {
		b = append(b, `,"ttr":`...)
		b = appendString(b, durationText(j.TTR))
	}
	if j.MaxAttempts > 0 {
		b = append(b, `,"max_attempts":`...)
		b = strconv.AppendInt(b, int64(j.MaxAttempts), 10)
	}
	return b
}

// appendSituation writes what only some states have.
func appendSituation(b []byte, j *queue.Job) []byte {
	switch {
	case j.State == queue.Delayed && !j.NextAt.IsZero() && !j.NextAt.Equal(j.DueAt):
		b = append(b, `,"next_attempt_at":`...)
		b = appendInstant(b, j.NextAt)
	case j.State == queue.Running && !j.LeaseUntil.IsZero():
		b = append(b, `,"lease_until":`...)
		b = appendInstant(b, j.LeaseUntil)
	case j.State == queue.Dead:
		b = append(b, `,"dead_reason":`...)
		b = appendString(b, j.DeadReason)
		if !j.DeadAt.IsZero() {
			b = append(b, `,"dead_at":`...)
			b = appendInstant(b, j.DeadAt)
		}
	}
	return b
}

// appendPushed writes the answer to a push.
func appendPushed(b []byte, j *queue.Job, duplicate bool) []byte {
	b = appendJob(b, j)
	if duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	return append(b, '}')
}

// appendWhole writes a job with body and history.
func appendWhole(b []byte, j *queue.Job) []byte {
	b = appendJob(b, j)
	b = append(b, `,"content_type":`...)
	b = appendString(b, shownType(j.ContentType))
	b = appendBody(b, j)
	b = append(b, `,"history":[`...)
	for i := range j.History {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAttempt(b, &j.History[i])
	}
	return append(b, ']', '}')
}

// appendBody shows the body of a JSON job as the JSON it is, byte for byte; other text as a string; and what is no text
// in base64.
func appendBody(b []byte, j *queue.Job) []byte {
	switch {
	case isJSON(j.ContentType) && validJSON(j.Body):
		b = append(b, `,"body":`...)
		return append(b, j.Body...)
	case utf8.Valid(j.Body):
		b = append(b, `,"body":`...)
		return appendString(b, string(j.Body))
	}
	b = append(b, `,"body_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, j.Body)
	return append(b, '"')
}

func appendAttempt(b []byte, a *queue.Attempt) []byte {
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(a.N), 10)
	b = append(b, `,"started_at":`...)
	b = appendInstant(b, time.UnixMilli(a.StartedAt))
	b = append(b, `,"took_ms":`...)
	b = strconv.AppendFloat(b, a.TookMS, 'f', -1, 64)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	b = append(b, `,"error":`...)
	b = appendString(b, a.Error)
	b = append(b, `,"answer":`...)
	b = appendString(b, a.Answer)
	return append(b, '}')
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

// validJSON says whether the bytes can stand in an answer as they are. Deeper ones than a push may have are not shown so.
func validJSON(body []byte) bool {
	s := scanner{data: body, depth: maxDepth, text: true}
	if _, err := s.value(); err != nil {
		return false
	}
	return s.end() == nil
}

func durationText(d time.Duration) string {
	text, err := registry.Duration(d).MarshalText()
	if err != nil {
		return d.String()
	}
	return string(text)
}
