package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// Helpers that run as separate processes.
const (
	HelperEcho     = "echo"
	HelperEndpoint = "endpoint"
)

// RunHelper serves a helper on a free port of 127.0.0.1, writes the address to out, and ends when stop does: the
// process that started it holds the other end.
func RunHelper(ctx context.Context, name string, stop io.Reader, out io.Writer) error {
	var h http.Handler
	switch name {
	case HelperEcho:
		h = echoHandler()
	case HelperEndpoint:
		h = newEndpoint()
	default:
		return fmt.Errorf("there is no helper %q", name)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stop)
		cancel()
	}()
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// echoHandler returns the bare echo handler: it reads the body, answers JSON and stores nothing.
func echoHandler() http.Handler {
	e := echo.New()
	e.POST("/v1/topics/:topic/jobs", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, echoAnswer{Topic: c.Param("topic"), State: "delayed", Size: len(body)})
	})
	return e
}

type echoAnswer struct {
	Topic string `json:"topic"`
	State string `json:"state"`
	Size  int    `json:"size"`
}

// endpoint receives callbacks. /count only counts them, /late also records when each arrived and when it was due.
type endpoint struct {
	mux     *http.ServeMux
	count   atomic.Int64
	mu      sync.Mutex
	buckets map[int64]int64 // by tenths of a second
	samples []sample
}

// sample is one callback to /late.
type sample struct {
	At     int64 `json:"at"`     // arrival, Unix microseconds
	Due    int64 `json:"due"`    // from the header Wakecall-Due-At, Unix milliseconds
	Wanted int64 `json:"wanted"` // from the id: the earliest time that the client asked for, Unix milliseconds
}

func newEndpoint() *endpoint {
	e := &endpoint{mux: http.NewServeMux(), buckets: map[int64]int64{}}
	e.mux.HandleFunc("POST /count", e.callback)
	e.mux.HandleFunc("POST /late", e.late)
	e.mux.HandleFunc("POST /reset", e.reset)
	e.mux.HandleFunc("GET /seen", e.seen)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.mux.ServeHTTP(w, r) }

// bucketLength is the resolution with which the endpoint counts callbacks over time.
const bucketLength = 100 * time.Millisecond

func (e *endpoint) callback(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	e.note(time.Now())
	w.WriteHeader(http.StatusOK)
}

func (e *endpoint) note(now time.Time) {
	e.count.Add(1)
	e.mu.Lock()
	e.buckets[now.UnixMilli()/bucketLength.Milliseconds()]++
	e.mu.Unlock()
}

func (e *endpoint) late(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	_, _ = io.Copy(io.Discard, r.Body)
	s := sample{At: now.UnixMicro()}
	if due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Wakecall-Due-At")); err == nil {
		s.Due = due.UnixMilli()
	}
	s.Wanted = wantedOf(r.Header.Get("Wakecall-Id"))
	e.mu.Lock()
	e.samples = append(e.samples, s)
	e.mu.Unlock()
	e.note(now)
	w.WriteHeader(http.StatusOK)
}

func (e *endpoint) reset(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count.Store(0)
	e.samples = nil
	clear(e.buckets)
	w.WriteHeader(http.StatusNoContent)
}

// seenAnswer is the endpoint's answer about the callbacks since the last reset.
type seenAnswer struct {
	Count   int64           `json:"count"`
	Buckets map[int64]int64 `json:"buckets,omitempty"` // by tenths of a second
	Samples []sample        `json:"samples,omitempty"`
}

func (e *endpoint) seen(w http.ResponseWriter, r *http.Request) {
	answer := seenAnswer{Count: e.count.Load()}
	if r.URL.Query().Has("all") {
		e.mu.Lock()
		defer e.mu.Unlock()
		answer.Buckets, answer.Samples = e.buckets, e.samples
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // an error means that the client has disconnected
}
