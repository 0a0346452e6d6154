package chaos

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// endpoint receives all callbacks and records them. Its behaviour is set for each topic.
type endpoint struct {
	rec  *recorder
	addr string

	mu         sync.Mutex
	srv        *http.Server
	calls      int
	behaviours map[string]harness.Behaviour
	probes     map[string]bool // ids of delivered probes
}

func newEndpoint(rec *recorder, addr string) *endpoint {
	return &endpoint{rec: rec, addr: addr, behaviours: map[string]harness.Behaviour{}, probes: map[string]bool{}}
}

// start listens, also again after stop.
func (e *endpoint) start() error {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(e.serve)}
	e.mu.Lock()
	e.srv = srv
	e.mu.Unlock()
	go func() { _ = srv.Serve(l) }() // ends with stop
	return nil
}

// stop closes every connection and refuses new ones.
func (e *endpoint) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.srv.Close()
}

func (e *endpoint) url(topic string) string { return "http://" + e.addr + "/" + topic }

// behave sets how calls of a topic are answered from now on.
func (e *endpoint) behave(topic string, b harness.Behaviour) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.behaviours[topic] = b
}

// answered reports whether a probe was called and answered.
func (e *endpoint) answered(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.probes[id]
}

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	at := now()
	call := harness.Call{At: time.Now(), Header: r.Header}
	call.Topic = r.Header.Get("Wakecall-Topic")
	call.ID, _ = url.PathUnescape(r.Header.Get("Wakecall-Id"))
	call.Attempt, _ = strconv.Atoi(r.Header.Get("Wakecall-Attempt"))
	due, _ := time.Parse(time.RFC3339, r.Header.Get("Wakecall-Due-At"))
	body, err := io.ReadAll(r.Body)

	e.mu.Lock()
	e.calls++
	n := e.calls
	behave := e.behaviours[call.Topic]
	e.mu.Unlock()
	digest := digest(body)
	if err != nil {
		digest = "" // aborted while the body was read
	}
	e.rec.add(
		event{
			Kind:    evCall,
			At:      at,
			Topic:   call.Topic,
			ID:      call.ID,
			Attempt: call.Attempt,
			DueAt:   float64(due.UnixMilli()),
			Call:    n,
			Body:    digest,
		},
	)
	answer := &answerer{ResponseWriter: w}
	if behave != nil && err == nil {
		behave(answer, r, call)
	}
	result := answer.result(r.Context(), err)
	e.rec.add(
		event{Kind: evAnswer, At: now(), Topic: call.Topic, ID: call.ID, Call: n, Status: answer.status, Result: result},
	)
	if result == good {
		e.noteProbe(call.ID)
	}
}

// noteProbe records that a job was done, if it is a probe.
func (e *endpoint) noteProbe(id string) {
	if strings.HasPrefix(id, probePrefix) {
		e.mu.Lock()
		e.probes[id] = true
		e.mu.Unlock()
	}
}

// answerer records the answer.
type answerer struct {
	http.ResponseWriter
	status   int
	hijacked bool
}

func (a *answerer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answerer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

func (a *answerer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.hijacked = true
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

func (a *answerer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answerer) result(ctx context.Context, err error) string {
	cut := ctx.Err() != nil || err != nil
	switch {
	case a.hijacked || cut && a.status == 0:
		return bad
	case cut && a.status == http.StatusOK:
		return maybe
	case a.status == http.StatusOK || a.status == 0:
		return good
	}
	return bad
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:6])
}
