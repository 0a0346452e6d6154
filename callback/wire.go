package callback

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
)

// wire notes how far a request got. Its flags are set on the transport's goroutines.
type wire struct{ reused, wrote atomic.Bool }

type wireKey struct{}

// trace makes the transport tell when a connection is taken and when the first header goes into its buffer, which is before the
// first byte leaves. Only a request line longer than the buffer leaves earlier; such a request counts as written at once.
func trace(ctx context.Context, u *url.URL) context.Context {
	w := &wire{}
	long := len(u.Path)*3+len(u.RawQuery) > writeBuffer/2
	return httptrace.WithClientTrace(context.WithValue(ctx, wireKey{}, w), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			w.reused.Store(i.Reused)
			if long {
				w.wrote.Store(true)
			}
		},
		WroteHeaderField: func(string, []string) { w.wrote.Store(true) },
	})
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
	if !ok || w.wrote.Load() {
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
