package callback

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
)

// Sent is a request as it goes out.
type Sent struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
}

// Describe returns the request that Do would send now.
func (c *Caller) Describe(e *Endpoint, r *Request) (*Sent, error) {
	m, err := c.message(e, r, time.Now())
	if err != nil {
		return nil, err
	}
	return &Sent{Method: e.method, URL: m.url.String(), Header: m.header(e), Body: m.body}, nil
}

// Curl returns a command line for bash that sends the same request. It quotes text from clients so that neither the
// terminal nor the shell nor curl interprets it. To curl, a body that begins with @ names a file, and brackets in a URL
// mean several URLs.
func (s *Sent) Curl() string {
	var b strings.Builder
	binary := !utf8.Valid(s.Body) || bytes.ContainsRune(s.Body, 0) // an argument cannot contain it
	if binary {
		fmt.Fprintf(&b, "base64 -d <<< %s | ", base64.StdEncoding.EncodeToString(s.Body))
	}
	fmt.Fprintf(&b, "curl -i -g -X %s %s", s.Method, printable.Word(s.URL))
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		for _, v := range s.Header[name] {
			fmt.Fprintf(&b, " \\\n  -H %s", printable.Word(name+": "+v))
		}
	}
	switch {
	case binary:
		b.WriteString(" \\\n  --data-binary @-")
	case len(s.Body) > 0:
		fmt.Fprintf(&b, " \\\n  --data-raw %s", printable.Word(string(s.Body)))
	}
	return b.String()
}

// Mark is the result of a Check.
type Mark string

// The marks.
const (
	Good    Mark = "good"
	Doubt   Mark = "doubt" // it works, with a risk
	Bad     Mark = "bad"
	Skipped Mark = "skipped"
)

// Check is one line of a Report.
type Check struct {
	Name   string // reachable, tls, answer, speed, redirect, size, signature, twice
	Mark   Mark
	Detail message.Message
}

// Report is the result of Probe.
type Report struct {
	Checks []Check
	First  Outcome // of the first call
	Sent   Sent
}

// Bad reports whether a check failed.
func (r *Report) Bad() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Mark == Bad })
}

const (
	slowAnswer  = time.Second
	soonExpires = 21 * 24 * time.Hour
	bigAnswer   = 16 << 10
)

// met records what happened while connecting to the endpoint.
type met struct {
	mu      sync.Mutex
	began   time.Time
	connect time.Duration
	address string
	tls     *tls.ConnectionState
}

func (m *met) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		ConnectDone: func(_, address string, err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if err == nil {
				m.connect, m.address = time.Since(m.began), address
			}
		},
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if err == nil {
				m.tls = &s
			}
		},
	}
}

// Probe calls an endpoint up to three times with a test job. It checks the connection, the certificate and the
// response, and that the endpoint rejects a wrong signature and accepts the same id twice. The calls are real: the
// endpoint sees the topic, and an id that begins with "wakecall-probe-".
func (c *Caller) Probe(ctx context.Context, e *Endpoint, r *Request) *Report {
	report := &Report{}
	if sent, err := c.Describe(e, r); err == nil {
		report.Sent = *sent
	}
	m := &met{began: time.Now()}
	own := *c
	own.pools = c.pools.Fresh() // the first call opens a connection, whatever else is called
	defer own.Close()
	c = &own
	report.First = c.Do(httptrace.WithClientTrace(ctx, m.trace()), e, r)
	report.reached(m)
	if report.First.Status == 0 {
		return report
	}
	report.answered(&report.First)
	report.signature(ctx, c, e, r)
	report.twice(ctx, c, e, r)
	return report
}

func (r *Report) add(name string, mark Mark, code string, args ...any) {
	r.Checks = append(r.Checks, Check{name, mark, message.New(code, args...)})
}

func (r *Report) reached(m *met) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.address == "" {
		r.add("reachable", Bad, "check.no_connection", r.First.Err)
		return
	}
	host, _, _ := net.SplitHostPort(m.address)
	r.add("reachable", Good, "check.connected", host, m.connect.Round(time.Millisecond/10))
	if m.tls == nil && strings.HasPrefix(r.Sent.URL, "https:") {
		r.add("tls", Bad, "check.tls_failed", r.First.Err)
		return
	}
	if m.tls == nil {
		r.add("tls", Doubt, "check.no_tls")
		return
	}
	until := m.tls.PeerCertificates[0].NotAfter
	mark, left := Good, time.Until(until)
	if left < soonExpires {
		mark = Doubt
	}
	r.add("tls", mark, "check.tls",
		tls.VersionName(m.tls.Version), until.UTC().Format("2006-01-02"), int(left.Hours()/24))
}

func (r *Report) answered(o *Outcome) {
	switch {
	case o.Class == Success:
		r.add("answer", Good, "check.delivered", o.Status)
	case o.Class == Snooze:
		r.add("answer", Doubt, "check.snoozed", o.Status, o.RetryAfter)
	case o.Status >= 300 && o.Status < 400:
		r.add("redirect", Bad, "check.redirect", o.Status)
	default:
		r.add("answer", Bad, "check.failed", o.Status, o.Err)
	}
	if o.Took > slowAnswer {
		r.add("speed", Doubt, "check.slow", o.Took.Round(time.Millisecond))
	} else {
		r.add("speed", Good, "check.took", o.Took.Round(time.Millisecond/10))
	}
	if n := len(o.Answer); n > bigAnswer {
		r.add("size", Doubt, "check.big", n)
	}
}

// signature sends the same request signed with another secret.
func (r *Report) signature(ctx context.Context, c *Caller, e *Endpoint, req *Request) {
	if len(e.keys) == 0 {
		r.add("signature", Skipped, "check.unsigned")
		return
	}
	forged := *e
	forged.keys = [][]byte{[]byte("this is not the secret of the topic")}
	o := c.Do(ctx, &forged, req)
	switch {
	case o.Status >= 400 && o.Status < 500:
		r.add("signature", Good, "check.signature_refused", o.Status)
	case o.Class == Success:
		r.add("signature", Bad, "check.signature_accepted", o.Status)
	default:
		r.add("signature", Doubt, "check.signature_unclear", o.Status, o.Err)
	}
}

// twice sends the same job again, as may happen after a crash.
func (r *Report) twice(ctx context.Context, c *Caller, e *Endpoint, req *Request) {
	if r.First.Class != Success {
		r.add("twice", Skipped, "check.first_failed")
		return
	}
	repeated := *req
	repeated.Attempt++
	if o := c.Do(ctx, e, &repeated); o.Class == Success {
		r.add("twice", Good, "check.twice", o.Status)
	} else {
		r.add("twice", Bad, "check.twice_refused", o.Status, o.Err)
	}
}
