package admin

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// busyConns knows which connections have a request under way or have just come with one. http.Server.Shutdown drops
// requests that it reads after it began, without an answer; so before it, these connections have to come to rest.
type busyConns struct {
	mu    sync.Mutex
	busy  map[net.Conn]struct{}
	moved chan struct{} // a tick when one came to rest
}

func newBusyConns() *busyConns {
	return &busyConns{busy: map[net.Conn]struct{}{}, moved: make(chan struct{}, 1)}
}

// note is http.Server.ConnState.
func (d *busyConns) note(c net.Conn, s http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s == http.StateNew || s == http.StateActive {
		d.busy[c] = struct{}{}
		return
	}
	delete(d.busy, c)
	select {
	case d.moved <- struct{}{}:
	default:
	}
}

func (d *busyConns) atRest() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.busy) == 0
}

// wait returns when all connections are at rest, at most limit later: one may have been opened and never used.
func (d *busyConns) wait(limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	for !d.atRest() {
		select {
		case <-d.moved:
		case <-t.C:
			return
		}
	}
}
