package callback

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/wakecall/wakecall/internal/callback/wire"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/pause"
)

// Options of a Caller.
type Options struct {
	Networks string // any (the default), public, or public and networks like 10.1.0.0/16,fd12::/16
	Version  string // of Wakecall, for User-Agent
	RootCAs  *x509.CertPool
	Resolver *net.Resolver
	// Listener returns the key of Wakecall's own listener at an address that may not be called; "" for none. nil: every
	// listener may be called.
	Listener func(netip.AddrPort) string
}

// Caller calls endpoints. Its methods may be called from any goroutine.
type Caller struct {
	pools     *wire.Pools
	costly    chan struct{} // turns of costly expressions
	userAgent string
}

const (
	maxAnswer   = 64 << 10
	dialTimeout = 10 * time.Second
	retryWait   = 5 * time.Millisecond
)

// New returns a Caller.
func New(o Options) (*Caller, error) {
	p, err := parseNetworks(o.Networks)
	if err != nil {
		return nil, err
	}
	p.listener = o.Listener
	dialer := &net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: o.Resolver, ControlContext: p.control,
	}
	// Go loads the system's roots only once. If no descriptor were free at the first call over TLS, no later one could
	// succeed.
	_, _ = x509.SystemCertPool() // without roots, calls over TLS fail with the reason
	return &Caller{
		pools: wire.New(dialer, o.RootCAs), costly: newShared(), userAgent: "Wakecall/" + o.Version,
	}, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Client returns a client for requests other than callbacks, under the same policy and over the same connections: no
// redirects, no proxy, no forbidden address.
func (c *Caller) Client() *http.Client {
	return &http.Client{Transport: c.pools, CheckRedirect: noRedirect}
}

// Close closes the idle connections.
func (c *Caller) Close() { c.pools.Close() }

// Do makes one call. It returns when the outcome is known. The timeout bounds the wait for the response, but not that
// for the turn of its retry_if.
func (c *Caller) Do(ctx context.Context, e *Endpoint, r *Request) (o Outcome) {
	o.StartedAt = time.Now()
	defer func() { o.Took, o.Err = time.Since(o.StartedAt), printable.Line(o.Err) }() // some quote what endpoints sent
	m, err := c.message(e, r, o.StartedAt)
	if err != nil {
		o.Class, o.Reason, o.Err, o.Unsent = Failure, "bad_body", err.Error(), true
		switch {
		case errors.Is(err, errHeader):
			o.Reason = "protocol"
		case errors.Is(err, errURL):
			o.Reason = ReasonURL
		}
		return o
	}
	stopping := ctx.Done()
	ctx, cancel := context.WithDeadline(ctx, o.StartedAt.Add(r.Timeout))
	defer cancel()
	o = c.try(ctx, cancel, stopping, e, r, &m, o.StartedAt)
	if e.form == nil {
		return o
	}
	for calls := 1; ; calls++ {
		if wait, repeat := e.form.Repeat(calls, &o); !repeat || !pause.For(ctx, wait) {
			return o
		}
		o = c.try(ctx, cancel, stopping, e, r, &m, o.StartedAt)
	}
}

// try makes the request and judges the response.
func (c *Caller) try(
	ctx context.Context, cancel context.CancelFunc, stopping <-chan struct{}, e *Endpoint, r *Request, m *content,
	started time.Time,
) Outcome {
	o := Outcome{StartedAt: started}
	x := c.pools.Exchange(r.Begin, cancel)
	resp, err := c.send(ctx, x, e, m)
	if err == nil {
		o.Status = resp.StatusCode
		o.ContentType = resp.Header.Get("Content-Type")
		o.Answer, err = readAnswer(resp)
		o.Truncated = len(o.Answer) == maxAnswer && resp.ContentLength != maxAnswer
	}
	switch {
	case x.Held():
		return Outcome{Class: Held, Reason: "held", Err: wire.ErrHeld.Error(), StartedAt: started}
	case err != nil:
		o.fail(err, r.Timeout)
	default:
		c.judge(&o, stopping, e, r, resp)
	}
	x.End(o.Reason == "timeout")
	return o
}

// judge judges a response, after waiting for a turn if that evaluates a retry_if.
func (c *Caller) judge(o *Outcome, stopping <-chan struct{}, e *Endpoint, r *Request, resp *http.Response) {
	if e.retryIf != nil {
		if r.Judging != nil {
			r.Judging()
		}
		defer e.retryIf.turn.wait(stopping, c.costly)()
	}
	o.judge(e, resp)
}

// send makes the request. It repeats it once if the request did not reach the endpoint.
func (c *Caller) send(ctx context.Context, x *wire.Exchange, e *Endpoint, m *content) (*http.Response, error) {
	r := (&http.Request{
		Method: e.method, URL: m.url, Host: m.url.Host, Header: m.header(e),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	rr, err := retryablehttp.FromRequest(r)
	if err == nil && len(m.body) > 0 {
		err = rr.SetBody(m.body)
	}
	if err != nil {
		return nil, err
	}
	client := retryablehttp.Client{
		HTTPClient: &http.Client{Transport: x, CheckRedirect: noRedirect},
		RetryMax:   1,
		Backoff:    func(time.Duration, time.Duration, int, *http.Response) time.Duration { return retryWait },
		CheckRetry: func(ctx context.Context, _ *http.Response, err error) (bool, error) {
			return err != nil && x.MayRepeat(ctx, err), nil
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return client.Do(rr)
}

// readAnswer reads the part of a response that is kept. The rest is not drained; closing the body then closes the
// connection.
func readAnswer(resp *http.Response) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength == 0 {
		return nil, nil
	}
	if n := resp.ContentLength; n > 0 && n <= maxAnswer {
		b := make([]byte, n)
		m, err := io.ReadFull(resp.Body, b)
		return b[:m], err
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
}
