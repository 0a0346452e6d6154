package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
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

// use records the connection of a try.
func (x *Exchange) use(c *conn, reused bool) {
	x.conn = c
	x.reused.Store(reused)
	x.http2.Store(false)
	x.wrote.Store(false)
	x.answered.Store(false)
	x.unasked.Store(false)
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
	case x.keepAlive != "":
		x.pool.limit(x.used, x.keepAlive)
	}
	if !x.direct {
		x.used.closeIfRetired()
	}
}
