package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
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

// limit keeps idle connections for less than the endpoint announces (Keep-Alive: timeout=5), so that no call uses one
// that the endpoint is closing.
func (p *Pool) limit(c *connections, header string) {
	announced := announcedIdle(header)
	if announced <= 0 {
		return
	}
	keep := max(announced-idleMargin, announced/2, minIdle)
	p.mu.Lock()
	shorter := keep < p.keep
	if shorter {
		p.keep = keep
	}
	p.mu.Unlock()
	if shorter {
		p.retire(c)
	}
}

// announcedIdle returns the timeout in a Keep-Alive header, or 0.
func announcedIdle(header string) time.Duration {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(value, " \t\""), 10, 16)
		if err != nil {
			return 0
		}
		return max(time.Duration(seconds)*time.Second, minIdle)
	}
	return 0
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

func (c *connections) net() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport == nil {
		c.transport = c.pools.transport(c.keep)
	}
	return c.transport
}

// closeUnused closes the idle direct connections without a response since a time.
func (c *connections) closeUnused(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = slices.DeleteFunc(c.idle, func(d *direct) bool {
		if d.answered.After(since) {
			return false
		}
		d.close()
		return true
	})
}

// closeIfRetired closes the idle connections of net/http that no later call uses.
func (c *connections) closeIfRetired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, d := range c.idle {
		d.close()
	}
	c.idle = nil
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}
