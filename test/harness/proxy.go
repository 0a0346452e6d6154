package harness

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between Wakecall and a server, and is the network's ill luck.
type Proxy struct {
	addr, target string
	l            net.Listener
	wg           sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	mode   mode
	healed chan struct{} // closed by the next change of mode
}

type mode struct {
	delay    time.Duration // of everything, each way
	cut      bool          // connections are reset, new ones too
	silent   bool          // connections stay open, and nothing comes through
	swallows float64       // the share of replies that get lost, with their connection
}

// StartProxy starts a proxy to a TCP address. It ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{addr: l.Addr().String(), target: target, l: l, conns: map[net.Conn]bool{}, healed: make(chan struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.set(mode{cut: true})
		p.wg.Wait()
	})
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Delay makes every packet late.
func (p *Proxy) Delay(d time.Duration) { p.set(mode{delay: d}) }

// Cut resets all connections, and those that are tried.
func (p *Proxy) Cut() { p.set(mode{cut: true}) }

// Silence keeps connections open and lets nothing through.
func (p *Proxy) Silence() { p.set(mode{silent: true}) }

// Swallow loses a share of the replies: the request was carried out, and its answer never comes.
func (p *Proxy) Swallow(share float64) { p.set(mode{swallows: share}) }

// Heal lets everything through again. Connections that lost something are reset.
func (p *Proxy) Heal() { p.set(mode{}) }

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lossy := p.mode.silent || m.cut
	p.mode = m
	close(p.healed)
	p.healed = make(chan struct{})
	if !lossy {
		return
	}
	for c := range p.conns {
		reset(c)
	}
}

func (p *Proxy) now() (mode, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.healed
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if m, _ := p.now(); m.cut {
			reset(c)
			continue
		}
		p.wg.Go(func() { p.join(c) })
	}
}

func (p *Proxy) join(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, 2*time.Second)
	if err != nil {
		reset(client)
		return
	}
	p.keep(client, server)
	var wg sync.WaitGroup
	wg.Go(func() { p.pump(server, client, false) })
	wg.Go(func() { p.pump(client, server, true) })
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

func (p *Proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
		if p.mode.cut {
			reset(c)
		}
	}
}

// pump copies until one side ends, then ends the other.
func (p *Proxy) pump(to, from net.Conn, replies bool) {
	defer func() { _, _ = from.Close(), to.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !p.pass(to, b[:n], replies) {
			reset(to)
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				reset(to)
			}
			return
		}
	}
}

func (p *Proxy) pass(to net.Conn, b []byte, reply bool) bool {
	m, healed := p.now()
	if m.silent {
		<-healed
		return false
	}
	if m.delay > 0 {
		time.Sleep(m.delay)
	}
	if reply && m.swallows > 0 && rand.Float64() < m.swallows {
		return false
	}
	_, err := to.Write(b)
	return err == nil
}
