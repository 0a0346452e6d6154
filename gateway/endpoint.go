package gateway

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
)

// Endpoint holds what one protocol needs to serve requests. Its methods may be called from any goroutine.
type Endpoint struct {
	Name    string // the protocol's name in the configuration, the journal, the metrics and the log
	Options listen.Options
	Log     *slog.Logger
	Metrics *Metrics
	// MaxTopics limits the topics that a worker may name in one request; 0: no limit.
	MaxTopics int

	conns  atomic.Int64
	bodies atomic.Int64 // bytes of requests in progress
}

// Limits of HTTP requests. There is no write timeout, because an answer may wait for a job (but see stallTimeout).
const (
	headerTimeout = 5 * time.Second
	readTimeout   = time.Minute
	idleTimeout   = 5 * time.Minute // clients of the old systems keep connections open
	maxHeader     = 16 << 10
)

// HTTP serves requests until ctx is done and then stops gracefully.
func (e *Endpoint) HTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler: sameOrigin(e.bounded(h)), DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(e.Log.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				e.count(1)
			case http.StateClosed, http.StateHijacked:
				e.count(-1)
			}
		},
	}
	waits, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	o := e.Options
	o.Draining = stop
	ctx = context.WithValue(store.Via(ctx, e.Name), waitsKey{}, waits)
	return listen.HTTP(ctx, stallListener{l, stallTimeout}, srv, o)
}

// sameOrigin rejects requests that another site sends through a user's browser, because most of the old systems trust
// everyone who can reach them. It checks GET requests, too: some clients take jobs with them.
func sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		change := *r
		change.Method = http.MethodPost // it lets other methods pass
		if err := protection.Check(&change); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type waitsKey struct{}

// Workers hands jobs to waiting workers.
type Workers interface {
	Take(ctx context.Context, r pull.Request) ([]store.Job, error)
}

// Take takes jobs for an HTTP request. It returns none if the request ends or the listener begins to stop while it
// waits.
func Take(ctx context.Context, w Workers, r pull.Request) ([]store.Job, error) {
	r.Alive = func() bool { return ctx.Err() == nil }
	if stops, ok := ctx.Value(waitsKey{}).(context.Context); ok {
		r.Stopping = stops.Done()
	}
	return w.Take(ctx, r)
}

// Patient lets a request wait longer than readTimeout, after which net/http would end its context. It reads the rest of
// the request's body, because only then does net/http notice that a client has disconnected. Some clients send a body
// needlessly: lmstfy's PHP client sends the body of its last publish with every GET.
func Patient(w http.ResponseWriter, r *http.Request) {
	rest := r.Body
	if counted, ok := rest.(*body); ok { // discarded bytes take up no memory
		rest = counted.ReadCloser
	}
	_, _ = io.Copy(io.Discard, rest)
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

func (e *Endpoint) count(n int64) {
	e.conns.Add(n)
	e.Metrics.conns.WithLabelValues(e.Name).Add(float64(n))
}

// Conn is a connection of a protocol other than HTTP.
type Conn struct{ net.Conn }

// Begin marks the beginning of a request. Until End, the connection is closed neither by a stop nor in favor of a new
// one.
func (c Conn) Begin() { listen.BeginRequest(c.Conn) }

// End marks the end of a request. It reports whether the connection may send another one.
func (c Conn) End() bool { return listen.EndRequest(c.Conn) }

// TCP serves connections until ctx is done and then stops gracefully, as listen.TCP explains.
func (e *Endpoint) TCP(ctx context.Context, l net.Listener, serve func(ctx context.Context, c Conn)) error {
	l = stallListener{l, stallTimeout}
	return listen.TCP(store.Via(ctx, e.Name), l, e.Options, func(ctx context.Context, c net.Conn) {
		e.count(1)
		defer e.count(-1)
		serve(ctx, Conn{c})
	})
}

// Observe records a request and its duration. Both labels must come from short lists, so that clients cannot create
// series.
func (e *Endpoint) Observe(command, result string, began time.Time) {
	e.Metrics.requests.WithLabelValues(e.Name, command, result).Inc()
	e.Metrics.duration.WithLabelValues(e.Name, command).Observe(time.Since(began).Seconds())
}
