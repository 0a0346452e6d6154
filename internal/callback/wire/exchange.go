package wire

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
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Exchange is the http.RoundTripper of one call. It knows which connection carries the request and how far the request
// got, and therefore whether it may be sent a second time. net/http sets its flags from other goroutines.
type Exchange struct {
	pools  *Pools
	pool   *Pool        // of the request's origin
	begin  func() error // may be nil
	cancel context.CancelFunc

	began     time.Time
	used      *connections // in the last try
	keepAlive string       // header of the response
	conn      *conn        // in the last try over HTTP/1
	reused    atomic.Bool
	http2     atomic.Bool
	direct    bool        // in the last try
	wrote     atomic.Bool // a byte of the request may have been sent
	answered  atomic.Bool // a byte of the response arrived
	unasked   atomic.Bool // the response arrived before the request
	held      atomic.Bool // begin returned an error

	indirect bool // for tests: use no direct connection
}

var (
	// ErrHeld is returned by an exchange whose begin returned an error.
	ErrHeld    = errors.New("the lease expired before the request was sent")
	errUnasked = errors.New("the endpoint sent a response before the request")
)

// Exchange prepares a call. begin is called once there is a connection, just before the first byte is sent. An error
// stops the call. begin is called again if the request is sent a second time. cancel ends the context of the request.
func (p *Pools) Exchange(begin func() error, cancel context.CancelFunc) *Exchange {
	return &Exchange{pools: p, began: time.Now(), begin: begin, cancel: cancel}
}

// RoundTrip implements http.RoundTripper.
func (x *Exchange) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	x.pool = x.pools.of(origin{r.URL.Scheme, r.URL.Host})
	x.used = x.pool.current()
	if x.direct = !x.indirect && mayGoDirectly(r); x.direct {
		resp, err = x.overDirect(r)
	} else {
		resp, err = x.overTransport(r)
	}
	if err == nil {
		x.keepAlive = resp.Header.Get("Keep-Alive")
	}
	return resp, err
}

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
// connections. Only Again decides about a retry, and only once.
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

// use records the connection of a try.
func (x *Exchange) use(c *conn, reused bool) {
	x.conn = c
	x.reused.Store(reused)
	x.http2.Store(false)
	x.wrote.Store(false)
	x.answered.Store(false)
	x.unasked.Store(false)
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

func (x *Exchange) mayBegin() error {
	if x.begin == nil {
		return nil
	}
	err := x.begin()
	if err == nil {
		return nil
	}
	x.held.Store(true)
	x.cancel() // otherwise net/http would try its other connections
	return fmt.Errorf("%w: %w", ErrHeld, err)
}

// Held reports whether begin stopped the call.
func (x *Exchange) Held() bool { return x.held.Load() }

// Again reports whether a request that ended with err should be sent a second time, over a new connection. It should if
// nothing of it reached the endpoint: its connection was refused, or was closed before anything was written, or was
// reused and closed by the endpoint before it received anything. The last case occurs if an endpoint closes idle
// connections. All other calls are attempts, which the job's history shows.
func (x *Exchange) Again(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || x.held.Load() || !x.unreceived(err) {
		return false
	}
	if x.reused.Load() {
		x.pool.retire(x.used)
	}
	return true
}

func (x *Exchange) unreceived(err error) bool {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	case x.http2.Load(): // with HTTP/2, net/http knows which requests were not processed
		return false
	case x.wrote.Load():
		return x.reused.Load() && !x.answered.Load() && x.conn.missed.Load()
	case errors.Is(err, errUnasked):
		return true
	case x.reused.Load(): // net/http has several errors for a closed connection, all unexported
		return !x.answered.Load() && !timedOut(err)
	}
	closed := []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, net.ErrClosed}
	return slices.ContainsFunc(closed, func(e error) bool { return errors.Is(err, e) })
}

func timedOut(err error) bool {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// End updates the pool for later calls. After a timeout on a connection that had worked, they do not use connections
// without a response since then, because the network may have dropped these silently. Which connections of net/http had
// one is unknown, so later calls use none of them. A call retires only those that it began with, so with an endpoint
// that hangs, others of its origin connect again once per timeout, not with every call that times out.
func (x *Exchange) End(timeout bool) {
	if x.used == nil {
		return
	}
	switch {
	case timeout && x.direct:
		if x.reused.Load() {
			x.used.closeUnused(x.began)
		}
	case timeout && (x.reused.Load() || x.http2.Load()):
		x.pool.retire(x.used)
	default:
		x.pool.limit(x.used, x.keepAlive)
	}
	if !x.direct {
		x.used.closeIfRetired()
	}
}
