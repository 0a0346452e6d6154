package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// A job that somebody waits for (Push.Awaited) has the pair await. When it ends, or is gone, its id is published on the
// channel ended of its bucket, see EndedJobs. A finished one stays, with its result, for two minutes, whatever its
// topic remembers; lua/shared/finished.lua says how.

// MaxResult is how many bytes of a result are kept.
const MaxResult = 64 << 10

// Answer is the result of a finished job. Its JSON form is the stored one.
type Answer struct {
	Result    json.RawMessage `json:"result"`
	Truncated bool            `json:"truncated,omitempty"`
}

// endpointResult is the result of a job that was delivered to an endpoint.
type endpointResult struct {
	Status      int     `json:"status"`
	ContentType string  `json:"content_type"`
	Body        *string `json:"body,omitempty"` // nil: it is not UTF-8
	Base64      string  `json:"body_base64,omitempty"`
}

// EndpointAnswer returns what an endpoint answered, whose body may be only the beginning.
func EndpointAnswer(status int, contentType string, body []byte, truncated bool) *Answer {
	r, text := endpointResult{Status: status, ContentType: contentType}, body
	for n := 1; truncated && n < utf8.UTFMax && n <= len(body) && !utf8.Valid(text); n++ {
		text = body[:len(body)-n] // without the beginning of a character
	}
	if utf8.Valid(text) {
		r.Body = new(string(text))
	} else {
		r.Base64 = base64.StdEncoding.EncodeToString(body)
	}
	result, _ := json.Marshal(&r) // numbers and texts: cannot fail
	return &Answer{result, truncated}
}

// Response returns the response of an endpoint in the answer, the reverse of EndpointAnswer. Any other result is its
// own body, without a content type.
func (a *Answer) Response() (contentType string, body []byte) {
	var r endpointResult
	switch err := json.Unmarshal(a.Result, &r); {
	case err != nil || r.Status == 0:
		return "", a.Result
	case r.Body != nil:
		return r.ContentType, []byte(*r.Body)
	}
	body, _ = base64.StdEncoding.DecodeString(r.Base64)
	return r.ContentType, body
}

// WorkerAnswer returns the result of a worker: JSON, or the beginning of it as a text when it is too long.
func WorkerAnswer(result []byte) *Answer {
	if len(result) <= MaxResult && json.Valid(result) {
		return &Answer{Result: bytes.Clone(result)}
	}
	text, _ := json.Marshal(shorten(string(result), MaxResult))
	return &Answer{text, true}
}

// KnownAnswer returns the result of a finished job, or else what its last attempt says of it; nil if that is nothing.
func (j *Job) KnownAnswer() *Answer {
	if j.Answer != nil || len(j.History) == 0 {
		return j.Answer
	}
	last := &j.History[len(j.History)-1]
	truncated := len(last.Answer) > maxFinishedAnswer-utf8.UTFMax // the rest may have been cut off
	if last.Status != 0 {
		return EndpointAnswer(last.Status, "", []byte(last.Answer), truncated)
	}
	if last.Answer == "" {
		return nil
	}
	return WorkerAnswer([]byte(last.Answer))
}

// Encode returns the answer as it is stored; "" for none.
func (a *Answer) Encode() string {
	if a == nil {
		return ""
	}
	text, _ := json.Marshal(a) // JSON, a number and a text: cannot fail
	return string(text)
}

// DecodeAnswer is the reverse of Encode; nil if there is none.
func DecodeAnswer(text string) *Answer {
	var a Answer
	if json.Unmarshal([]byte(text), &a) != nil {
		return nil
	}
	return &a
}
