// Package proxy forwards TCP connections, with the faults that a test asks for.
package proxy

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
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
	addr     string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	target  string
	trouble Trouble
	changed chan struct{} // closed when trouble changes
	links   map[*link]bool
	cuts    []*cut
}

// cut is a request to come that is lost, or the reply to it.
type cut struct {
	request bool
	to      func(request []byte) bool
	done    chan struct{}
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	done           chan struct{}
	once           sync.Once
	spoilt         bool   // an answer was lost: the next one would be taken for it
	request        []byte // the last one, until it is answered
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

// Start starts a proxy to an address, which ends with the test.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		addr: fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)), target: target,
		changed: make(chan struct{}), links: map[*link]bool{},
	}
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Refuse()
		p.Set(Trouble{Cut: true})
		p.wg.Wait()
	})
	return p
}

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Refuse makes the operating system refuse new connections, as when the target has ended.
func (p *Proxy) Refuse() { _ = p.listener.Close() }

// Accept ends Refuse.
func (p *Proxy) Accept() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("listen for connections to %s: %w", p.target, err)
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
	return nil
}

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

// CutReply makes the next reply to a request for which to returns true get lost, together with its connection: the
// request has been executed. The channel that it returns is closed then.
func (p *Proxy) CutReply(to func(request []byte) bool) (done <-chan struct{}) {
	return p.cut(&cut{to: to})
}

// CutRequest makes the next request for which of returns true get lost, together with its connection: it is not
// executed. The channel that it returns is closed then.
func (p *Proxy) CutRequest(of func(request []byte) bool) (done <-chan struct{}) {
	return p.cut(&cut{to: of, request: true})
}

func (p *Proxy) cut(c *cut) <-chan struct{} {
	c.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = append(p.cuts, c)
	return c.done
}

// KeepReplies forgets the requests and replies to come that were to be cut.
func (p *Proxy) KeepReplies() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
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
	trouble, changed := p.meets(l, piece, answers)
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
func (p *Proxy) meets(l *link, piece []byte, answers bool) (Trouble, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trouble := p.trouble
	trouble.Swallow = trouble.Swallow && answers
	if trouble.Swallow {
		l.spoilt = true
	}
	if !answers {
		l.request = append(l.request, piece...)
		trouble.Cut = trouble.Cut || p.isCut(l.request, true)
		return trouble, p.changed
	}
	request := l.request
	l.request = nil
	if rand.Float64() < trouble.Lose || p.isCut(request, false) {
		trouble.Cut = true
	}
	return trouble, p.changed
}

// isCut reports whether a request, or the reply to it, is to be lost.
func (p *Proxy) isCut(request []byte, itself bool) bool {
	n := slices.IndexFunc(p.cuts, func(c *cut) bool { return c.request == itself && c.to(request) })
	if n < 0 {
		return false
	}
	close(p.cuts[n].done)
	p.cuts = slices.Delete(p.cuts, n, n+1)
	return true
}

func (l *link) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.done:
		return false
	}
}
