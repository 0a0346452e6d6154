package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Options of a Caller.
type Options struct {
	Networks string       // any (the default), public, or networks like 10.1.0.0/16,fd12::/16 beside the public ones
	Version  string       // of Wakecall, for User-Agent
	Logger   *slog.Logger // nil: silent
	RootCAs  *x509.CertPool
	Resolver *net.Resolver
}

// Caller makes calls over one shared pool of connections. Its methods may be called from any goroutine.
type Caller struct {
	client    *retryablehttp.Client
	transport *http.Transport
	plain     *plain
	userAgent string
	log       *slog.Logger
}

const (
	maxAnswer    = 64 << 10
	maxHeader    = 64 << 10
	idlePerHost  = 1024
	idleInAll    = 4 * idlePerHost
	idleTimeout  = 90 * time.Second
	dialTimeout  = 10 * time.Second
	writeBuffer  = 8 << 10
	readBuffer   = 8 << 10
	quickRetries = 1
	quickWait    = 5 * time.Millisecond
)

// New makes a caller.
func New(o Options) (*Caller, error) {
	p, err := parseNetworks(o.Networks)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: o.Resolver, ControlContext: p.control}
	t := &http.Transport{
		Proxy:                  nil, // a proxy would dial where the policy cannot see
		DialContext:            gatedDial(dialer),
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // an answer is kept as it came; nothing is unpacked
		MaxIdleConns:           idleInAll,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    dialTimeout,
		WriteBufferSize:        writeBuffer,
		ReadBufferSize:         readBuffer,
	}
	direct := &plain{dial: dialer.DialContext, idle: map[string][]*kept{}}
	c := &Caller{transport: t, plain: direct, userAgent: "Wakecall/" + o.Version, log: o.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.client = &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     either{direct, once{t}},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:     quickRetries,
		RetryWaitMin: quickWait,
		RetryWaitMax: quickWait,
		Backoff:      func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return quickWait },
		CheckRetry:   c.checkRetry,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return c, nil
}

func gatedDial(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gated{Conn: c}, nil
	}
}

// Client makes plain requests under the same policy: no redirects, no proxy, no forbidden address.
func (c *Caller) Client() *http.Client {
	h := *c.client.HTTPClient
	return &h
}

// Close ends connections that are idle.
func (c *Caller) Close() {
	c.transport.CloseIdleConnections()
	c.plain.close()
}

// Do makes one call. It returns when the outcome is known, at the latest when the timeout is over or ctx ends.
func (c *Caller) Do(ctx context.Context, e *Endpoint, r *Request) (o Outcome) {
	o.StartedAt = time.Now()
	defer func() { o.Took, o.Err = time.Since(o.StartedAt), oneLine(o.Err) }()
	m, err := c.message(e, r, o.StartedAt)
	if err != nil {
		o.Class, o.Reason, o.Err = Failure, "bad_body", err.Error()
		if errors.Is(err, errHeader) {
			o.Reason = "protocol"
		}
		return o
	}
	w := &wire{begin: r.Begin, cancel: func() {}}
	defer func() { w.cancel() }()
	rr, err := c.request(ctx, w, e, &m, o.StartedAt.Add(r.Timeout))
	if err != nil {
		o.Class, o.Reason, o.Err = Failure, "protocol", err.Error()
		return o
	}
	resp, err := c.client.Do(rr)
	if w.held.Load() {
		o.Class, o.Reason, o.Err = Held, "held", errHeld.Error()
		if err == nil {
			_ = resp.Body.Close()
		}
		return o
	}
	if err != nil {
		o.fail(err, r.Timeout)
		return o
	}
	o.Answer, err = readAnswer(resp)
	o.Status = resp.StatusCode
	if err != nil {
		o.fail(err, r.Timeout)
		return o
	}
	o.judge(e, resp)
	return o
}

// request is a message for the client, which must be there by end.
func (c *Caller) request(ctx context.Context, w *wire, e *Endpoint, m *message, end time.Time) (*retryablehttp.Request, error) {
	req := &http.Request{Method: e.method, URL: m.url, Host: m.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if e.plain && len(m.body)+len(m.url.RawQuery) <= plainBody { // the client need not know, nor copy, what plain sends
		req.Header = http.Header{}
		return retryablehttp.FromRequest(req.WithContext(&limited{Context: ctx, end: end, wire: w, sent: m.append(nil, e)}))
	}
	req.Header = m.header(e)
	ctx, w.cancel = context.WithDeadline(trace(ctx, w, req), end)
	rr, err := retryablehttp.FromRequest(req.WithContext(ctx))
	if err == nil && len(m.body) > 0 {
		err = rr.SetBody(m.body)
	}
	return rr, err
}

// readAnswer reads what is kept of an answer. More than that is not drained: closing ends its connection.
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
