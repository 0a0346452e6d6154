package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
)

// wire notes how far a request got, and asks once more before its first byte leaves. Its flags may be set on the transport's goroutines.
type wire struct {
	reused, wrote, held atomic.Bool
	begin               func() error // may be nil
	cancel              context.CancelFunc
}

type wireKey struct{}

// trace makes the transport tell when a connection is taken and when the headers are in its buffer, which is before the first byte
// leaves. Only headers longer than the buffer leave earlier; such a request counts as written at once, and so does one over HTTP/2,
// whose transport knows itself what it may repeat.
func trace(ctx context.Context, w *wire, r *http.Request) context.Context {
	long := size(r) > writeBuffer/2
	return httptrace.WithClientTrace(context.WithValue(ctx, wireKey{}, w), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			w.reused.Store(i.Reused)
			if long {
				w.wrote.Store(true)
			}
			w.take(i.Conn)
		},
		WroteHeaders: func() { w.wrote.Store(true) },
	})
}

// size is at least that of the request's line and headers.
func size(r *http.Request) int {
	n := len(r.URL.Path)*3 + len(r.URL.RawQuery)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// take has begin asked before the first byte: by the connection's next write, or at once over HTTP/2, which writes nothing of a
// request whose context has ended.
func (w *wire) take(c net.Conn) {
	if w.begin == nil {
		return
	}
	if t, ok := c.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			w.wrote.Store(true)
			_ = w.allow()
			return
		}
		c = t.NetConn()
	}
	if g, ok := c.(*gated); ok {
		g.next.Store(w)
	}
}

var errHeld = errors.New("the call was not to begin any more")

func (w *wire) allow() error {
	err := w.begin()
	if err == nil {
		return nil
	}
	w.held.Store(true)
	w.cancel() // or the transport would try its other connections
	return fmt.Errorf("%w: %w", errHeld, err)
}

// gated is a connection whose next write may have to ask first.
type gated struct {
	net.Conn
	next atomic.Pointer[wire]
}

// Write implements net.Conn.
func (g *gated) Write(b []byte) (int, error) {
	if w := g.next.Swap(nil); w != nil {
		if err := w.allow(); err != nil {
			return 0, err
		}
	}
	return g.Conn.Write(b)
}

// checkRetry tells the client whether a second try is allowed.
func (c *Caller) checkRetry(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil || ctx.Err() != nil || !unwritten(ctx, err) {
		return false, nil
	}
	c.log.Debug("a callback that reached nobody is tried once more", "error", bare(err))
	return true, nil
}

// unwritten reports whether the request certainly did not reach the endpoint: nobody listened, or the connection ended before
// anything was written.
func unwritten(ctx context.Context, err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	w, ok := ctx.Value(wireKey{}).(*wire)
	if !ok || w.wrote.Load() || w.held.Load() {
		return false
	}
	var ne net.Error
	if w.reused.Load() { // a kept connection that was closed meanwhile; net/http has several errors for that, none exported
		return !errors.As(bare(err), &ne) || !ne.Timeout()
	}
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// bare is err without the URL that net/http quotes in it: its query may hold secrets.
func bare(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// either sends what has a limited context directly, and all else through net/http's transport.
type either struct {
	plain *plain
	once  once
}

// RoundTrip implements http.RoundTripper.
func (e either) RoundTrip(r *http.Request) (*http.Response, error) {
	if ctx, ok := r.Context().(*limited); ok {
		return e.plain.roundTrip(ctx, r)
	}
	return e.once.RoundTrip(r)
}

// once is the transport without two habits of net/http that do not fit here. It sends a GET, or anything with an Idempotency-Key,
// again after it was written, which would be a call that no attempt counts. And it lets retryablehttp close every idle connection
// after any error, so that one broken endpoint would cost all others theirs: once has no CloseIdleConnections.
type once struct{ next *http.Transport }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	if !replayable(r) {
		return o.next.RoundTrip(r)
	}
	r = r.WithContext(r.Context()) // a shallow copy; a RoundTripper must not change what it was given
	r.GetBody = nil
	if r.Body == nil || r.Body == http.NoBody {
		r.Body = io.NopCloser(strings.NewReader("")) // net/http calls a body it cannot get anew not replayable; none is sent
	}
	return o.next.RoundTrip(r)
}

func replayable(r *http.Request) bool {
	return r.Method == http.MethodGet || len(r.Header["Idempotency-Key"]) > 0 || len(r.Header["X-Idempotency-Key"]) > 0
}
