package harness

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness/ledger"
)

// Key names a job.
type Key struct{ Topic, ID string }

func (k Key) String() string { return k.Topic + "/" + k.ID }

// Call is a callback as it arrived.
type Call struct {
	Key
	N       int       // number of the call at this endpoint, from 1
	At      time.Time // when its headers were read
	Method  string
	Path    string
	Query   url.Values
	Header  http.Header
	Body    []byte
	Attempt int
	DueAt   time.Time
	Aborted bool // the caller disconnected before the body was complete
	// Status of the answer; 0 until then, 499 when the caller disconnected first, 599 when the answer was not HTTP.
	Status int
	Sent   int // the status that was sent, even if the caller disconnected meanwhile
}

// Arrival returns the call as an event of a ledger.
func (c Call) Arrival() ledger.Event {
	e := ledger.Event{
		Kind: ledger.Call, At: ledger.MS(c.At), Topic: c.Topic, ID: c.ID, Attempt: c.Attempt, Call: c.N,
		DueAt: float64(c.DueAt.UnixMilli()),
	}
	if !c.Aborted {
		e.Body = ledger.Digest(c.Body)
	}
	return e
}

// Answer returns the answer to the call as an event of a ledger.
func (c Call) Answer() ledger.Event {
	e := ledger.Event{
		Kind: ledger.Answer, At: ledger.Now(), Topic: c.Topic, ID: c.ID, Call: c.N, Status: c.Sent, Result: ledger.Bad,
	}
	switch {
	case c.Aborted:
	case c.Status == http.StatusOK:
		e.Result = ledger.Good
	case c.Status == 499 && c.Sent == http.StatusOK:
		e.Result = ledger.Maybe
	}
	return e
}

// Behaviour answers a call, or misbehaves, and returns the status that it sent; 0: none, notHTTP: it broke HTTP.
type Behaviour func(w http.ResponseWriter, r *http.Request, c Call) int

const notHTTP = 599

// Endpoint is an HTTP server that records every call. Its behaviour is set for each path; by default it answers 200.
type Endpoint struct {
	addr string
	srv  *http.Server
	// observe, if not nil, gets every call as it arrives and again with its Status; calls are not kept then.
	observe  func(Call)
	accepted atomic.Int64

	mu         sync.Mutex
	count      int
	calls      []Call
	behaviours map[string]Behaviour
}

// NewEndpoint returns an endpoint that passes each call to observe as it arrives, and again with its Status. Start
// starts it.
func NewEndpoint(addr string, observe func(Call)) *Endpoint {
	return &Endpoint{addr: addr, observe: observe, behaviours: map[string]Behaviour{}}
}

// StartEndpoint starts an endpoint that keeps all calls, and ends with the test.
func StartEndpoint(t testing.TB) *Endpoint {
	t.Helper()
	e := NewEndpoint(fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)), nil)
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e
}

// Start listens on the endpoint's address, also again after Stop.
func (e *Endpoint) Start() error {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(e.serve), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.accepted.Add(1)
		}
	}}
	e.srv = srv
	go func() { _ = srv.Serve(l) }() // ends with Stop
	return nil
}

// Stop stops listening and closes every connection: from now on, connections are refused.
func (e *Endpoint) Stop() { _ = e.srv.Close() }

// Accepted returns how many connections were accepted.
func (e *Endpoint) Accepted() int64 { return e.accepted.Load() }

// URL returns the URL of a path at this endpoint.
func (e *Endpoint) URL(path string) string { return "http://" + e.addr + path }

// Set sets how a path behaves from now on.
func (e *Endpoint) Set(path string, b Behaviour) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behaviours[path] = b
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	c := newCall(r)
	behave := e.arrived(&c)
	c.Sent = http.StatusOK
	if behave != nil && !c.Aborted {
		c.Sent = behave(w, r, c)
	}
	c.Status = c.Sent
	if r.Context().Err() != nil && c.Sent != notHTTP {
		c.Status = 499
	}
	e.answered(c)
}

func newCall(r *http.Request) Call {
	c := Call{At: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header}
	c.Topic, c.ID = r.Header.Get("Wakecall-Topic"), r.Header.Get("Wakecall-Id")
	if id, err := url.PathUnescape(c.ID); err == nil {
		c.ID = id
	}
	c.Attempt, _ = strconv.Atoi(r.Header.Get("Wakecall-Attempt"))
	c.DueAt, _ = time.Parse(time.RFC3339, r.Header.Get("Wakecall-Due-At"))
	body, err := io.ReadAll(r.Body)
	c.Body, c.Aborted = body, err != nil
	return c
}

// arrived records a call, and returns how it is answered.
func (e *Endpoint) arrived(c *Call) Behaviour {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	c.N = e.count
	if e.observe != nil {
		e.observe(*c)
	} else {
		e.calls = append(e.calls, *c)
	}
	return e.behaviours[c.Path]
}

func (e *Endpoint) answered(c Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.observe != nil {
		e.observe(c)
		return
	}
	e.calls[c.N-1] = c
}

// Calls returns the calls for a topic so far, in the order of their arrival; for "" those of all topics.
func (e *Endpoint) Calls(topic string) []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	if topic == "" {
		return slices.Clone(e.calls)
	}
	var calls []Call
	for _, c := range e.calls {
		if c.Topic == topic {
			calls = append(calls, c)
		}
	}
	return calls
}

// CallsOf returns the calls for one job so far.
func (e *Endpoint) CallsOf(topic, id string) []Call {
	return slices.DeleteFunc(e.Calls(topic), func(c Call) bool { return c.ID != id })
}

// WaitCalls waits for n calls for a topic and returns all calls so far.
func (e *Endpoint) WaitCalls(t testing.TB, topic string, n int) []Call {
	t.Helper()
	var calls []Call
	Eventually(t, Patience, fmt.Sprintf("%d calls for %s", n, topic), func() error {
		if calls = e.Calls(topic); len(calls) < n {
			return fmt.Errorf("there were %d", len(calls))
		}
		return nil
	})
	return calls
}
