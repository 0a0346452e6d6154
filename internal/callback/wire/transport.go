package wire

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"
)

func (x *Exchange) overTransport(r *http.Request) (*http.Response, error) {
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn:              x.gotConn,
		GotFirstResponseByte: x.gotAnswer,
	})
	resp, err := x.used.net().RoundTrip(unreplayable(r.WithContext(ctx)))
	if err == nil && x.unasked.Load() {
		_ = resp.Body.Close()
		return nil, errUnasked
	}
	return resp, err
}

// unreplayable prevents net/http from retrying a GET, or a request with an idempotency key, over each of its idle
// connections. Only MayRepeat decides about a retry, and only once.
func unreplayable(r *http.Request) *http.Request {
	if r.Method != http.MethodGet && len(r.Header["Idempotency-Key"]) == 0 && len(r.Header["X-Idempotency-Key"]) == 0 {
		return r
	}
	r.GetBody = nil
	if r.Body == nil || r.Body == http.NoBody {
		// of unknown length to net/http, so not replayable; nothing is sent
		r.Body = io.NopCloser(strings.NewReader(""))
	}
	return r
}

// gotConn makes the connection call begin before the first byte of the request is sent. Over HTTP/2, where the
// connection carries other requests, too, it calls begin immediately; a request whose context has ended is not written.
func (x *Exchange) gotConn(i httptrace.GotConnInfo) {
	c := i.Conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			x.use(nil, i.Reused)
			x.http2.Store(true)
			x.wrote.Store(true)
			_ = x.mayBegin()
			return
		}
	}
	own, _ := c.(*conn)
	x.use(own, i.Reused)
	own.before.Store(own.reads.Load())
	own.next.Store(x)
}

// gotAnswer is called by the goroutine that reads the connection, before it continues reading.
func (x *Exchange) gotAnswer() {
	x.answered.Store(true)
	if !x.http2.Load() {
		x.unasked.Store(!x.wrote.Load() || !x.conn.readSinceWrite())
	}
}

// transport returns a net/http Transport that closes connections that were idle for so long.
func (p *Pools) transport(idle time.Duration) *http.Transport {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return p.dial(ctx, address) }
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial addresses that the policy cannot check
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // responses are kept as received, not decompressed
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    p.dialer.Timeout,
		WriteBufferSize:        bufferSize,
		ReadBufferSize:         bufferSize,
	}
}

func (c *connections) net() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport == nil {
		c.transport = c.pools.transport(c.keep)
	}
	return c.transport
}

// closeIfRetired closes the idle connections of net/http that no later call uses.
func (c *connections) closeIfRetired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}
