package server

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
)

// Constant header values, so that answers do not allocate them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)

// answering replaces invalid UTF-8 in an endpoint's response with U+FFFD, and writes times as the API does.
var answering = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true), json.WithMarshalers(json.MarshalToFunc(writeInstant)),
)

// writeInstant writes RFC 3339 in UTC with milliseconds. It appends them itself, because AppendFormat is three times as
// fast without them.
func writeInstant(e *jsontext.Encoder, t time.Time) error {
	b := t.UTC().AppendFormat(append(e.AvailableBuffer(), '"'), time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	b = append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
	return e.WriteValue(b)
}

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
