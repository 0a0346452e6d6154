package gate

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// reservedFiles are the descriptors that connections leave to Redis, the journal and the rest of the process.
const reservedFiles = 64

// Limit bounds connections by what the process may open.
func Limit(limit int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur > uint64(limit)+reservedFiles {
		return limit
	}
	return max(int(files.Cur)-reservedFiles, int(files.Cur)/2, 1)
}

// quietAge is how long a connection may be without a request before it must give way to another when all places are taken.
const quietAge = time.Second

// Gate is a listener with a bounded number of connections. When it is full it closes those that have been without a
// request under way for longest, so that half-open or idle clients cannot keep others out; when every connection is
// busy, it accepts no more until one ends.
type Gate struct {
	net.Listener
	limit int
	now   func() time.Time

	mu    sync.Mutex
	conns map[*conn]struct{}
	freed chan struct{} // a tick when a place became free, or a connection brought its first request
	done  chan struct{} // closed by Close
	once  sync.Once
	ended chan struct{} // closed when nothing more will be accepted: all connections are known
	over  sync.Once
}

// New bounds the connections of l.
func New(l net.Listener, limit int) *Gate {
	return &Gate{
		Listener: l, limit: limit, now: time.Now,
		conns: map[*conn]struct{}{}, freed: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
	}
}

// conn is a connection that knows how long it has been quiet.
type conn struct {
	net.Conn
	gate  *Gate
	busy  atomic.Int32
	quiet atomic.Int64 // since when, Unix nanoseconds
	asked atomic.Bool  // it has brought a request
	once  sync.Once
}

// Accept waits for a free place, then for a connection.
func (g *Gate) Accept() (net.Conn, error) {
	for !g.room() {
		select {
		case <-g.freed:
		case <-time.After(quietAge / 4): // some may have become quiet for long enough
		case <-g.done:
			defer g.noteEnd()
			return g.Listener.Accept() // which says that it is closed
		}
	}
	accepted, err := g.Listener.Accept()
	if err != nil {
		g.noteEnd()
		return nil, err
	}
	c := &conn{Conn: accepted, gate: g}
	c.quiet.Store(g.now().UnixNano())
	g.mu.Lock()
	g.conns[c] = struct{}{}
	g.mu.Unlock()
	return c, nil
}

// noteEnd is called when nothing was accepted: after Close that is the end.
func (g *Gate) noteEnd() {
	select {
	case <-g.done:
		g.over.Do(func() { close(g.ended) })
	default:
	}
}

func (g *Gate) room() bool {
	g.mu.Lock()
	full := len(g.conns) >= g.limit
	g.mu.Unlock()
	return !full || g.evict()
}

// evict closes the quietest connections: a sixteenth at once, since each look goes over all of them.
func (g *Gate) evict() bool {
	quiet := g.quietest(g.now().Add(-quietAge).UnixNano())
	quiet = quiet[:min(len(quiet), max(1, g.limit/16))]
	for _, c := range quiet {
		if c.busy.Load() == 0 {
			_ = c.Close()
		}
	}
	return len(quiet) > 0
}

func (g *Gate) quietest(before int64) []*conn {
	var quiet []*conn
	g.mu.Lock()
	for c := range g.conns {
		if c.busy.Load() == 0 && c.quiet.Load() < before {
			quiet = append(quiet, c)
		}
	}
	g.mu.Unlock()
	slices.SortFunc(quiet, func(a, b *conn) int { return cmp.Compare(a.quiet.Load(), b.quiet.Load()) })
	return quiet
}

// Close closes the listener and lets a waiting Accept go. Closing it again is no mistake: a stopping server does, before net/http does.
func (g *Gate) Close() (err error) {
	g.once.Do(func() {
		close(g.done)
		err = g.Listener.Close()
	})
	return err
}

// Empty waits, after Close, until no connection is left, at most limit.
func (g *Gate) Empty(limit time.Duration) {
	g.without(limit, func(*conn) bool { return true })
}

// Greeted waits, after Close, until every connection that was accepted has brought its first request, at most limit.
func (g *Gate) Greeted(limit time.Duration) {
	g.without(limit, func(c *conn) bool { return !c.asked.Load() })
}

// without waits, after Close, until there is no connection of a kind, at most limit.
func (g *Gate) without(limit time.Duration, kind func(*conn) bool) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-g.ended:
	case <-t.C:
		return
	}
	for {
		left := 0
		g.mu.Lock()
		for c := range g.conns {
			if kind(c) {
				left++
			}
		}
		g.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-g.freed:
		case <-t.C:
			return
		}
	}
}

// Close closes the connection and frees its place.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.gate.mu.Lock()
		delete(c.gate.conns, c)
		c.gate.mu.Unlock()
		c.gate.tick()
	})
	return c.Conn.Close()
}

// tick has whoever waits for the connections look again.
func (g *Gate) tick() {
	select {
	case g.freed <- struct{}{}:
	default:
	}
}

type connKey struct{}

// WithConn puts the connection where Track finds it; it is for http.Server.ConnContext. Under TLS it is inside of the TLS connection.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Track marks connections with a request under way, which the gate never closes.
func (g *Gate) Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		c.busy.Add(1)
		if !c.asked.Swap(true) {
			g.tick()
		}
		defer func() {
			c.quiet.Store(g.now().UnixNano())
			c.busy.Add(-1)
		}()
		next.ServeHTTP(w, r)
	})
}
