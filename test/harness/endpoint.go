package harness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
)

// Key names a job.
type Key struct{ Topic, ID string }

func (k Key) String() string { return k.Topic + "/" + k.ID }

// Call is a callback as it arrived.
type Call struct {
	Key
	At      time.Time // when its headers were read
	Method  string
	Path    string
	Query   url.Values
	Header  http.Header
	Body    []byte
	Attempt int
	DueAt   time.Time
	Status  int // status of the answer; 0 until then
}

// Behaviour answers a call, or misbehaves.
type Behaviour func(w http.ResponseWriter, r *http.Request, c Call)

// Endpoint is an HTTP server that records every call. Its behaviour is set for each path; by default it answers 200.
type Endpoint struct {
	t    testing.TB
	addr string
	srv  *http.Server

	mu         sync.Mutex
	calls      []Call
	behaviours map[string]Behaviour
}

// StartEndpoint starts an endpoint that ends with the test.
func StartEndpoint(t testing.TB) *Endpoint {
	t.Helper()
	e := &Endpoint{t: t, addr: fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)), behaviours: map[string]Behaviour{}}
	e.Start()
	t.Cleanup(e.Stop)
	return e
}

// Start listens on the endpoint's address, also again after Stop.
func (e *Endpoint) Start() {
	e.t.Helper()
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(e.serve)}
	e.srv = srv
	go func() { _ = srv.Serve(l) }() // ends with Stop
}

// Stop stops listening and closes every connection: from now on, connections are refused.
func (e *Endpoint) Stop() { _ = e.srv.Close() }

// URL returns the URL of a path at this endpoint.
func (e *Endpoint) URL(path string) string { return "http://" + e.addr + path }

// Set sets how a path behaves from now on.
func (e *Endpoint) Set(path string, b Behaviour) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behaviours[path] = b
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	c := Call{At: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone()}
	c.Topic = r.Header.Get("Wakecall-Topic")
	c.ID = unescape(r.Header.Get("Wakecall-Id"))
	c.Attempt, _ = strconv.Atoi(r.Header.Get("Wakecall-Attempt"))
	c.DueAt, _ = time.Parse(time.RFC3339, r.Header.Get("Wakecall-Due-At"))
	c.Body, _ = io.ReadAll(r.Body) // an aborted call counts, too

	e.mu.Lock()
	e.calls = append(e.calls, c)
	n := len(e.calls) - 1
	behave := e.behaviours[c.Path]
	e.mu.Unlock()
	answer := &recorder{ResponseWriter: w}
	if behave != nil {
		behave(answer, r, c)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[n].Status = answer.result(r.Context())
}

// recorder records the status of an answer.
type recorder struct {
	http.ResponseWriter
	status   int
	hijacked bool
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Hijack is called by the behaviours that break HTTP.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.hijacked = true
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// result returns the status that was answered; 499 means that the caller hung up before, 599 that no valid answer was
// sent.
func (r *recorder) result(ctx context.Context) int {
	switch {
	case r.hijacked:
		return 599
	case ctx.Err() != nil:
		return 499
	case r.status == 0:
		return http.StatusOK
	}
	return r.status
}

func unescape(id string) string {
	if s, err := url.PathUnescape(id); err == nil {
		return s
	}
	return id
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
		calls = e.Calls(topic)
		if len(calls) < n {
			return fmt.Errorf("there were %d", len(calls))
		}
		return nil
	})
	return calls
}
