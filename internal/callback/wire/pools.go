package wire

import (
	"context"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	maxHeader   = 64 << 10
	maxIdle     = 1024 // idle connections of a pool
	maxOpen     = 4096 // see Pools.most
	maxPools    = 1024
	idleTimeout = 90 * time.Second
	maxAge      = 3 * time.Minute
	idleMargin  = time.Second // before an endpoint closes idle connections, as announced
	minIdle     = 100 * time.Millisecond
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	bufferSize  = 8 << 10
)

// Pools holds all connections. Its methods may be called from any goroutine.
type Pools struct {
	// MaxAge is how long a connection gets new requests, at most. The names of endpoints get other addresses, which
	// only new connections find. It must not change once there are calls.
	MaxAge time.Duration

	dialer *net.Dialer
	roots  *x509.CertPool
	open   atomic.Int64 // connections
	most   int64        // above this, the least recently used pools are closed

	mu   sync.Mutex
	list *simplelru.LRU[origin, *Pool]
}

// origin says which requests may share a connection. All have the same TLS settings.
type origin struct{ scheme, host string } // with the port, if the URL has one

// New returns Pools that dial with d and trust roots (nil: the system's).
func New(d *net.Dialer, roots *x509.CertPool) *Pools {
	list, err := simplelru.NewLRU(maxPools, func(_ origin, old *Pool) { old.close() })
	if err != nil { // fails only if the size is not positive
		panic(err)
	}
	return &Pools{MaxAge: maxAge, dialer: d, roots: roots, most: mostOpen(), list: list}
}

// Fresh returns Pools with the same settings and no connections.
func (p *Pools) Fresh() *Pools { return New(p.dialer, p.roots) }

// RoundTrip implements http.RoundTripper, for requests other than callbacks.
func (p *Pools) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.Exchange(nil, func() {}).RoundTrip(r)
}

// mostOpen returns maxOpen or, if that is less, half of the descriptors that this process may have. Idle connections
// leave the rest for calls to other endpoints.
func mostOpen() int64 {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return maxOpen
	}
	return int64(min(maxOpen, files.Cur/2))
}

func (p *Pools) dial(ctx context.Context, address string) (*conn, error) {
	c, err := p.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	p.open.Add(1)
	return &conn{Conn: c, open: &p.open}, nil
}

// of returns the pool of an origin. If there are too many pools or connections, it closes the least recently used
// pools.
func (p *Pools) of(key origin) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, known := p.list.Get(key)
	if !known {
		own = &Pool{all: p, keep: idleTimeout}
		p.list.Add(key, own)
	}
	for p.list.Len() > 1 && p.open.Load() > p.most { // some pools have no connections
		p.list.RemoveOldest()
	}
	return own
}

// Close closes the idle connections, and the others when they become idle.
func (p *Pools) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list.Purge()
}

// Pool holds the connections to one origin.
type Pool struct {
	all *Pools

	mu   sync.Mutex
	keep time.Duration // how long a connection may be idle
	now  *connections  // nil before the first call
}

// current returns the connections that a call may use. It replaces those that have reached their age.
func (p *Pool) current() *connections {
	now := time.Now()
	p.mu.Lock()
	old := p.now
	if old != nil && now.Before(old.until) {
		p.mu.Unlock()
		return old
	}
	c := &connections{pools: p.all, keep: p.keep, until: now.Add(p.all.age())}
	p.now = c
	p.mu.Unlock()
	if old != nil {
		old.close()
	}
	return c
}

// age returns MaxAge or up to a third less, so that not all processes connect again at once.
func (p *Pools) age() time.Duration { return p.MaxAge - rand.N(p.MaxAge/3+1) }

// close closes connections as soon as they are idle.
func (p *Pool) close() {
	p.mu.Lock()
	old := p.now
	p.now = nil
	p.mu.Unlock()
	if old != nil {
		old.close()
	}
}

// retire closes connections as soon as they are idle. Later calls use new ones.
func (p *Pool) retire(c *connections) {
	p.mu.Lock()
	if p.now == c {
		p.now = nil
	}
	p.mu.Unlock()
	c.close()
}

// connections holds the connections that a pool uses until a call finds that they should no longer be used.
type connections struct {
	pools *Pools
	keep  time.Duration
	until time.Time // when later calls use others

	mu        sync.Mutex
	transport *http.Transport // nil until it is needed
	idle      []*direct       // the most recently used one is last
	expiry    *time.Timer     // nil if none was idle when it last fired
	closed    bool            // close connections when they become idle
}

// take returns the most recently used connection, or nil.
func (c *connections) take() *direct {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		last := len(c.idle) - 1
		d := c.idle[last]
		c.idle[last] = nil
		c.idle = c.idle[:last]
		if time.Since(d.answered) < c.keep {
			return d
		}
		d.drop()
	}
	return nil
}

// give stores a connection for the next call.
func (c *connections) give(d *direct) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle || c.pools.open.Load() > c.pools.most {
		d.drop()
		return
	}
	d.answered = time.Now()
	c.idle = append(c.idle, d)
	if c.expiry == nil {
		c.expiry = time.AfterFunc(c.keep, c.expire)
	}
}

// expire closes the connections that were idle for too long, which are first in the list. All share one timer, because
// a timer for each took 1 % of a callback.
func (c *connections) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 && time.Since(c.idle[0].answered) >= c.keep {
		c.idle[0].drop()
		c.idle = slices.Delete(c.idle, 0, 1)
	}
	c.expiry = nil
	if len(c.idle) > 0 {
		c.expiry = time.AfterFunc(c.keep-time.Since(c.idle[0].answered), c.expire)
	}
}

// closeUnused closes the idle direct connections without a response since a time.
func (c *connections) closeUnused(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = slices.DeleteFunc(c.idle, func(d *direct) bool {
		if d.answered.After(since) {
			return false
		}
		d.drop()
		return true
	})
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, d := range c.idle {
		d.drop()
	}
	c.idle = nil
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}
