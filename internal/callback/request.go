package callback

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Request describes the job of one call.
type Request struct {
	Topic       string
	ID          string
	Body        []byte
	ContentType string            // empty: application/json
	Headers     map[string]string // the job's; they override those of the endpoint
	Priority    string
	Attempt     int // from 1
	MaxAttempts int
	DueAt       time.Time
	CreatedAt   time.Time
	Timeout     time.Duration // the TTR
	// Begin is called once the call has a connection, just before the request is written, possibly from another
	// goroutine. An error stops the call. Begin is called again if the request is sent a second time. It may be nil.
	Begin func() error
	// Judging is called before the endpoint's retry_if is evaluated. That may take 50 ms, and wait for the evaluations
	// of the topic's other calls. It may be nil.
	Judging func()
}

const instant = "2006-01-02T15:04:05.000Z"

var (
	errBody   = errors.New("body must be a JSON object to be sent as a query or form")
	errHeader = errors.New("the job's content type or one of its headers is not a valid header value")
)

// Message is the part of a request that a Form decides.
type Message struct {
	URL         *url.URL
	Body        []byte
	ContentType string // empty: none
	UserAgent   string
}

// content is the content of a request: the endpoint's headers, overridden by the job's, overridden by own, and the
// body.
type content struct {
	url  *url.URL
	job  map[string]string
	own  []field
	body []byte
}

type field struct{ name, value string } // name in canonical form

func (c *Caller) message(e *Endpoint, r *Request, now time.Time) (m content, err error) {
	for name, value := range r.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return m, errHeader
		}
	}
	var sent Message
	if e.form != nil {
		sent = e.form.Message(e.method, e.url, r, now)
	} else if sent, err = c.ownMessage(e, r); err != nil {
		return m, err
	}
	m.url, m.job, m.body = sent.URL, r.Headers, sent.Body
	m.own = append(c.ownHeaders(r), field{"User-Agent", sent.UserAgent})
	if sent.ContentType != "" {
		m.own = append(m.own, field{"Content-Type", sent.ContentType})
	}
	m.sign(e, r, now)
	return m, nil
}

func (c *Caller) ownMessage(e *Endpoint, r *Request) (Message, error) {
	m := Message{URL: e.url, Body: r.Body, ContentType: cmp.Or(r.ContentType, e.typ), UserAgent: c.userAgent}
	if e.method == http.MethodGet || e.asForm {
		values, err := members(r.Body, e.own)
		if err != nil {
			return m, err
		}
		if e.method == http.MethodGet {
			m.URL, m.Body, m.ContentType = withQuery(e.url, values), nil, ""
		} else {
			m.Body, m.ContentType = []byte(values), "application/x-www-form-urlencoded"
		}
	}
	if !httpguts.ValidHeaderFieldValue(m.ContentType) {
		return m, errHeader
	}
	return m, nil
}

func (c *Caller) ownHeaders(r *Request) []field {
	return append(make([]field, 0, 12),
		field{"Wakecall-Topic", r.Topic},
		field{"Wakecall-Id", escapeID(r.ID)},
		field{"Wakecall-Priority", r.Priority},
		field{"Wakecall-Attempt", strconv.Itoa(r.Attempt)},
		field{"Wakecall-Max-Attempts", strconv.Itoa(r.MaxAttempts)},
		field{"Wakecall-Due-At", r.DueAt.UTC().Format(instant)},
	)
}

func (m *content) sign(e *Endpoint, r *Request, now time.Time) {
	if len(e.keys) > 0 {
		m.own = append(m.own, sign(e.keys, messageID(r), now, m.body)...)
	}
}

func (m *content) header(e *Endpoint) http.Header {
	h := make(http.Header, len(m.own)+len(e.headers)+len(m.job))
	maps.Copy(h, e.headers)
	for name, value := range m.job {
		h.Set(name, value)
	}
	values := make([]string, len(m.own)) // of all fields at once
	for i, f := range m.own {
		values[i] = f.value
		h[f.name] = values[i : i+1 : i+1]
	}
	return h
}

// messageID returns the same id for every attempt of a job, and a different one if the job's id is pushed again. It is
// a hash rather than the job's id, because the parts of the signed text are joined with dots.
func messageID(r *Request) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%d", r.Topic, r.ID, r.CreatedAt.UnixMilli())
	return "msg_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

// sign returns the headers of Standard Webhooks 1.0.0: the HMAC-SHA256 of "id.timestamp.body" with each secret.
func sign(keys [][]byte, id string, now time.Time, body []byte) []field {
	ts := strconv.FormatInt(now.Unix(), 10)
	var sigs strings.Builder
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + ts + "."))
		mac.Write(body)
		if i > 0 {
			sigs.WriteByte(' ')
		}
		sigs.WriteString("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return []field{{"Webhook-Id", id}, {"Webhook-Timestamp", ts}, {"Webhook-Signature", sigs.String()}}
}

// escapeID percent-encodes characters that a header cannot contain, and the percent sign.
func escapeID(id string) string {
	escaped := func(c rune) bool { return c < 0x20 || c >= 0x7f || c == '%' }
	if !strings.ContainsFunc(id, escaped) {
		return id
	}
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; escaped(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// members encodes the top-level members of an object as a query, in their order: strings unchanged, null as an empty
// string, other values as JSON. It omits members whose names are in own.
func members(body []byte, own url.Values) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", errBody
	}
	var b strings.Builder
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", errBody
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return "", errBody
		}
		name, _ := key.(string)
		if own.Has(name) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(plainValue(raw)))
	}
	if _, err := d.Token(); err != nil {
		return "", errBody
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // more than the object
		return "", errBody
	}
	return b.String(), nil
}

func plainValue(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	case 'n':
		return ""
	case '{', '[':
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil {
			return b.String()
		}
	}
	return string(raw)
}

// withQuery puts the job's parameters before those of the URL. So the URL's win in an endpoint that treats two names as
// one, as PHP does with k[] and k.
func withQuery(u *url.URL, query string) *url.URL {
	if query == "" {
		return u
	}
	v := *u
	if v.RawQuery != "" {
		query += "&"
	}
	v.RawQuery = query + v.RawQuery
	return &v
}
