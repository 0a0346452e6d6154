package harness

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Trouble describes the faults of a Proxy. The zero value forwards everything at once.
type Trouble struct {
	Cut bool // every connection is reset, including new ones
	// nothing is forwarded until the fault ends, then everything is: a stalled network
	Hold bool
	// requests are forwarded, answers are lost; clients that wait for one are disconnected when the fault ends
	Swallow  bool
	Withhold func(answer []byte) bool // answers for which it returns true are lost; the connection stays open
	Lose     float64                  // this share of answers is lost, at random, together with their connections
	Delay    time.Duration            // delay of every chunk, in both directions
	Trickle  bool                     // 512 bytes every 10 ms
}

// Proxy forwards TCP connections to an address, with the faults of a Trouble.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	target  string
	trouble Trouble
	changed chan struct{} // closed when trouble changes
	links   map[*link]bool
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	done           chan struct{}
	once           sync.Once
	spoilt         bool // an answer was lost: the next one would be taken for it
}

// close resets both sides: data that is still in transit is lost.
func (l *link) close() {
	l.once.Do(func() {
		close(l.done)
		reset(l.client)
		reset(l.server)
	})
}

func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// StartProxy starts a proxy to an address, which ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, changed: make(chan struct{}), links: map[*link]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Set(Trouble{Cut: true})
		p.wg.Wait()
	})
	return p
}

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetTarget sets the target of new connections.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Set begins a fault, or ends it with the zero value.
func (p *Proxy) Set(trouble Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = trouble
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		if trouble.Cut || (l.spoilt && !trouble.Swallow) {
			l.close()
		}
	}
}

// Heal ends all faults.
func (p *Proxy) Heal() { p.Set(Trouble{}) }

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.serve(conn) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target, cut := p.target, p.trouble.Cut
	p.mu.Unlock()
	if cut {
		reset(client)
		return
	}
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		reset(client)
		return
	}
	l := &link{client: client, server: server, done: make(chan struct{})}
	p.mu.Lock()
	p.links[l] = true
	if p.trouble.Cut { // the fault began meanwhile
		l.close()
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { defer l.close(); p.pump(l, server, client, false) })
	both.Go(func() { defer l.close(); p.pump(l, client, server, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) pump(l *link, dst, src net.Conn, answers bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && !p.pass(l, dst, buf[:n], answers) {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass forwards a chunk as the current fault demands, and reports whether the connection stays open.
func (p *Proxy) pass(l *link, dst net.Conn, piece []byte, answers bool) bool {
	trouble, changed := p.meets(l, answers)
	switch {
	case trouble.Cut:
		return false
	case trouble.Hold:
		select {
		case <-changed:
			return p.pass(l, dst, piece, answers)
		case <-l.done:
			return false
		}
	case trouble.Swallow, answers && trouble.Withhold != nil && trouble.Withhold(piece):
		return true
	}
	for len(piece) > 0 {
		n := len(piece)
		if trouble.Trickle {
			n, trouble.Delay = min(n, 512), 10*time.Millisecond
		}
		if trouble.Delay > 0 && !l.wait(trouble.Delay) {
			return false
		}
		if _, err := dst.Write(piece[:n]); err != nil {
			return false
		}
		piece = piece[n:]
	}
	return true
}

// meets returns the current fault, and a channel that is closed when it changes.
func (p *Proxy) meets(l *link, answers bool) (Trouble, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trouble := p.trouble
	trouble.Swallow = trouble.Swallow && answers
	if trouble.Swallow {
		l.spoilt = true
	}
	if answers && rand.Float64() < trouble.Lose {
		trouble.Cut = true
	}
	return trouble, p.changed
}

func (l *link) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.done:
		return false
	}
}
