package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	idleMargin  = time.Second // before an endpoint closes idle connections, as announced
	minIdle     = 100 * time.Millisecond
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	bufferSize  = 8 << 10
)

// Pools holds all connections. Its methods may be called from any goroutine.
type Pools struct {
	dialer *net.Dialer
	roots  *x509.CertPool
	open   atomic.Int64 // connections
	most   int64        // above this, the least recently used pools are closed

	mu   sync.Mutex
	list *simplelru.LRU[string, *Pool]
}

// New returns Pools that dial with d and trust roots (nil: the system's).
func New(d *net.Dialer, roots *x509.CertPool) *Pools {
	list, err := simplelru.NewLRU(maxPools, func(_ string, old *Pool) { old.retire(old.current()) })
	if err != nil { // fails only if the size is not positive
		panic(err)
	}
	return &Pools{dialer: d, roots: roots, most: mostOpen(), list: list}
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

// Transport returns a net/http Transport that closes connections that were idle for so long.
func (p *Pools) Transport(idle time.Duration) *http.Transport {
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

// Of returns the pool of a key. If there are too many pools or connections, it closes the least recently used pools.
func (p *Pools) Of(key string) *Pool {
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

// Pool holds the connections of one key.
type Pool struct {
	all *Pools

	mu   sync.Mutex
	keep time.Duration // how long a connection may be idle
	now  *connections  // nil before the first call
}

// current returns the connections that a call may use.
func (p *Pool) current() *connections {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now = &connections{pools: p.all, keep: p.keep}
	}
	return p.now
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
		c.transport = c.pools.Transport(c.keep)
	}
	return c.transport
}

// closeUnused closes the idle connections without a response since a time.
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
	if c.transport != nil {
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
