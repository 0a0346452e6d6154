package listen

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// reservedFiles is the number of descriptors reserved for Redis, the journal and the rest of the process.
const reservedFiles = 64

// maxConns returns the largest number of connections up to limit for which the process has descriptors.
func maxConns(limit int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur > uint64(limit)+reservedFiles {
		return limit
	}
	return max(int(files.Cur)-reservedFiles, int(files.Cur)/2, 1)
}

// quietAge is how long a connection must normally have been without a request before it can be closed in favor of a
// new one.
const quietAge = time.Second

// limited limits the connections of another listener. When it is full, it closes the connections that have been without
// a request for longest, or are still sending one. While every connection is busy, it accepts none.
type limited struct {
	net.Listener
	limit    int
	quietAge time.Duration
	started  time.Time // ages are relative to this, by the monotonic clock

	mu    sync.Mutex
	conns map[*limitedConn]struct{}

	changed   chan struct{} // receives when a connection has ended or sent its first request
	closed    chan struct{}
	closeOnce sync.Once
	ended     chan struct{} // closed after the last Accept: conns no longer grows
	closing   atomic.Bool   // see CloseIdle
	endOnce   sync.Once
}

// limitConns limits the connections of l.
func limitConns(l net.Listener, limit int) *limited {
	return &limited{
		Listener: l, limit: limit, quietAge: quietAge, started: time.Now(), conns: map[*limitedConn]struct{}{},
		changed: make(chan struct{}, 1), closed: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Limit limits the connections of l, which srv will serve. When it is full, it closes those that have been without a
// request for longest, at least for quiet, to accept new ones.
func Limit(l net.Listener, srv *http.Server, most int, quiet time.Duration) net.Listener {
	srv.Handler, srv.ConnContext = track(srv.Handler), connContext
	conns := limitConns(l, maxConns(most))
	conns.quietAge = quiet
	return conns
}

// HalfConn is a connection whose sending half can be closed, as far as what it wraps allows it.
type HalfConn struct{ net.Conn }

// CloseWrite lets net/http end an answer before the client has sent its whole request, without a reset, which could
// discard the answer at the client.
func (c HalfConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// limitedConn is an accepted connection.
type limitedConn struct {
	HalfConn
	listener  *limited
	busy      atomic.Int32 // current requests
	quiet     atomic.Int64 // when its last request ended, or it was accepted, see limited.now
	asked     atomic.Bool  // has sent a request
	closeOnce sync.Once
}

// Accept waits until there are fewer connections than the limit, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	l.waitForPlace()
	accepted, err := l.Listener.Accept()
	if err != nil {
		l.noteEnd()
		return nil, err
	}
	c := &limitedConn{HalfConn: HalfConn{accepted}, listener: l}
	c.quiet.Store(l.now())
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	return c, nil
}

func (l *limited) waitForPlace() {
	for l.full() && !l.evict() {
		select {
		case <-l.changed:
		case <-time.After(l.quietAge / 4): // by then, some may have been quiet for long enough
		case <-l.closed:
			return
		}
	}
}

// now returns the nanoseconds since the start. A step of the wall clock does not change it.
func (l *limited) now() int64 { return int64(time.Since(l.started)) }

func (l *limited) full() bool { return l.Conns() >= l.limit }

// evict closes the quietest connections, and reports whether there were any. It closes a sixteenth at a time, because
// finding them takes a pass over all connections.
func (l *limited) evict() bool {
	quiet := l.quietest(l.now() - int64(l.quietAge))
	quiet = quiet[:min(len(quiet), max(1, l.limit/16))]
	for _, c := range quiet {
		if c.busy.Load() == 0 {
			_ = c.Close()
		}
	}
	return len(quiet) > 0
}

// Conns returns the number of open connections.
func (l *limited) Conns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

func (l *limited) quietest(before int64) []*limitedConn {
	var quiet []*limitedConn
	l.mu.Lock()
	for c := range l.conns {
		if c.busy.Load() == 0 && c.quiet.Load() < before {
			quiet = append(quiet, c)
		}
	}
	l.mu.Unlock()
	slices.SortFunc(quiet, func(a, b *limitedConn) int { return cmp.Compare(a.quiet.Load(), b.quiet.Load()) })
	return quiet
}

// Close closes the listener, but not the connections. It may be called more than once.
func (l *limited) Close() (err error) {
	l.closeOnce.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// noteEnd is called after Accept failed. After Close, that was the last Accept.
func (l *limited) noteEnd() {
	select {
	case <-l.closed:
		l.endOnce.Do(func() { close(l.ended) })
	default:
	}
}

// CloseIdle closes the connections without a current request. The remaining ones may not send another request, as
// EndRequest reports.
func (l *limited) CloseIdle() {
	l.closing.Store(true)
	l.closeConns(func(c *limitedConn) bool { return c.busy.Load() == 0 })
}

// CloseAll closes all remaining connections, and returns their number.
func (l *limited) CloseAll() int { return l.closeConns(func(*limitedConn) bool { return true }) }

func (l *limited) closeConns(match func(*limitedConn) bool) int {
	var which []*limitedConn
	l.mu.Lock()
	for c := range l.conns {
		if match(c) {
			which = append(which, c)
		}
	}
	l.mu.Unlock()
	for _, c := range which {
		_ = c.Close()
	}
	return len(which)
}

// WaitForEnd waits, after Close, until no connection is left, for at most limit.
func (l *limited) WaitForEnd(limit time.Duration) {
	l.waitUntilNone(limit, func(*limitedConn) bool { return true })
}

// WaitForFirstRequests waits, after Close, until every connection has sent a request, for at most limit.
func (l *limited) WaitForFirstRequests(limit time.Duration) {
	l.waitUntilNone(limit, func(c *limitedConn) bool { return !c.asked.Load() })
}

func (l *limited) waitUntilNone(limit time.Duration, match func(*limitedConn) bool) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-l.ended:
	case <-timeout.C:
		return
	}
	for l.any(match) {
		select {
		case <-l.changed:
		case <-timeout.C:
			return
		}
	}
}

func (l *limited) any(match func(*limitedConn) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if match(c) {
			return true
		}
	}
	return false
}

func (l *limited) tick() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Close closes the connection, which makes room for another one.
func (c *limitedConn) Close() error {
	c.closeOnce.Do(func() {
		c.listener.mu.Lock()
		delete(c.listener.conns, c)
		c.listener.mu.Unlock()
		c.listener.tick()
	})
	return c.Conn.Close()
}
