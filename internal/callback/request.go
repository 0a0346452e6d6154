package callback

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/wakecall/wakecall/conf/address"
)

// Request describes the job of one call.
type Request struct {
	Topic       string
	ID          string
	URL         string // empty: the endpoint's. That of another origin gets none of the endpoint's headers
	Body        []byte
	ContentType string            // empty: application/json
	Headers     map[string]string // the job's; they override those of the endpoint
	Priority    string
	Attempt     int // from 1
	MaxAttempts int
	DueAt       time.Time
	CreatedAt   time.Time
	Timeout     time.Duration // the TTR
	Traceparent string        // the call's trace context; empty: none
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
	errURL    = errors.New("the job's url cannot be called")
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
	url     *url.URL
	foreign bool // another origin than the endpoint's: without the endpoint's headers
	job     map[string]string
	own     []field
	body    []byte
}

type field struct{ name, value string } // name in canonical form

func (c *Caller) message(e *Endpoint, r *Request, now time.Time) (m content, err error) {
	for name, value := range r.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return m, errHeader
		}
	}
	to := e.url
	if r.URL != "" {
		if to, err = url.Parse(r.URL); err != nil || to.Host == "" {
			return m, errURL // not quoted: its query may hold secrets
		}
		m.foreign = originOf(to) != originOf(e.url)
	}
	var sent Message
	if e.form != nil {
		sent = e.form.Message(e.method, to, r, now)
	} else if sent, err = c.ownMessage(e, to, r); err != nil {
		return m, err
	}
	m.url, m.job, m.body = sent.URL, r.Headers, sent.Body
	m.own = append(c.ownHeaders(r), field{"User-Agent", sent.UserAgent})
	if r.Traceparent != "" {
		m.own = append(m.own, field{"Traceparent", r.Traceparent})
	}
	if e.events {
		m.own = appendEvent(m.own, r)
	}
	if sent.ContentType != "" {
		m.own = append(m.own, field{"Content-Type", sent.ContentType})
	}
	if len(e.keys) > 0 {
		m.own = append(m.own, sign(e.keys, messageID(r), now, m.body)...)
	}
	return m, nil
}

// originOf returns a URL's origin: scheme, host and port.
func originOf(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + address.Port(u)
}

func (c *Caller) ownMessage(e *Endpoint, to *url.URL, r *Request) (Message, error) {
	m := Message{URL: to, Body: r.Body, ContentType: cmp.Or(r.ContentType, e.typ), UserAgent: c.userAgent}
	if e.method == http.MethodGet || e.asForm {
		own := e.own
		if e.method == http.MethodGet && to != e.url {
			own = to.Query()
		}
		values, err := members(r.Body, own)
		if err != nil {
			return m, err
		}
		if e.method == http.MethodGet {
			m.URL, m.Body, m.ContentType = withQuery(to, values), nil, ""
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
	return append(make([]field, 0, 13),
		field{"Accept-Encoding", "identity"}, // without it, servers may compress
		field{"Wakecall-Topic", r.Topic},
		field{"Wakecall-Id", escapeID(r.ID)},
		field{"Wakecall-Priority", r.Priority},
		field{"Wakecall-Attempt", strconv.Itoa(r.Attempt)},
		field{"Wakecall-Max-Attempts", strconv.Itoa(r.MaxAttempts)},
		field{"Wakecall-Due-At", r.DueAt.UTC().Format(instant)},
	)
}

func (m *content) header(e *Endpoint) http.Header {
	h := make(http.Header, len(m.own)+len(e.headers)+len(m.job))
	if !m.foreign {
		maps.Copy(h, e.headers)
	}
	for name, value := range m.job {
		if m.foreign || e.fixed == nil || !e.fixed(name) {
			h.Set(name, value)
		}
	}
	values := make([]string, len(m.own)) // of all fields at once
	for i, f := range m.own {
		values[i] = f.value
		h[f.name] = values[i : i+1 : i+1]
	}
	for _, name := range e.spelled {
		respell(h, name)
	}
	for name := range m.job {
		respell(h, name)
	}
	return h
}

// respell gives a header the spelling of name, such as SOAPAction, which HTTP/1 endpoints may compare byte by byte. The
// registry refuses headers that net/http treats specially.
func respell(h http.Header, name string) {
	canonical := http.CanonicalHeaderKey(name)
	if values, ok := h[canonical]; ok && canonical != name {
		delete(h, canonical)
		h[name] = values
	}
}

// escapeID percent-encodes characters that a header cannot contain, and the percent sign.
func escapeID(id string) string {
	return escape(id, func(c rune) bool { return c < 0x20 || c >= 0x7f || c == '%' })
}

func escape(id string, escaped func(rune) bool) string {
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
