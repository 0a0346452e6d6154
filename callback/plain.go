package callback

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// plain makes calls over connections without TLS. net/http's Transport has two goroutines a connection, to which each request is handed, and which
// hand the answer back; here the caller writes and reads itself, and the request is made at once as it is sent, which costs a third less. Answers
// are read by net/http all the same (ReadResponse). Its methods may be called from any goroutine.
type plain struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	idle   map[string][]*kept // by address, the one used last at the end
	count  int                // of idle
	closed bool               // until the next call
	sweep  *time.Timer        // not nil while there are idle ones
}

// plainBody is the longest body, or query, that goes this way. It is written before anything is read: an endpoint that answers a long one without having
// read it is heard by net/http alone.
const plainBody = 16 << 10

// plainHost says whether a host is sent and dialled as it is written.
func plainHost(host string) bool {
	return !strings.ContainsFunc(host, func(c rune) bool { return c >= utf8.RuneSelf || c == '%' }) && httpguts.ValidHostHeader(host)
}

// unsent are headers that the request itself decides on, as in http.Request.Write.
var unsent = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}

// append is the message in the form of HTTP/1.1 (RFC 9112). None of its parts has a line break in it: an URL and an endpoint's headers are checked
// when they are compiled, a topic when it is registered, a content type by message, and an id is escaped.
func (m *message) append(b []byte, e *Endpoint) []byte {
	b = slices.Grow(b, 512+len(m.body))
	b = append(append(append(b, e.method...), ' '), m.url.RequestURI()...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), m.url.Host...)
	for name, values := range e.headers {
		if !slices.Contains(unsent, name) && !slices.ContainsFunc(m.own, func(f field) bool { return f.name == name }) {
			b = appendField(b, field{name, values[0]})
		}
	}
	for _, f := range m.own {
		b = appendField(b, f)
	}
	if e.method != http.MethodGet {
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(m.body)), 10)
	}
	return append(append(b, "\r\n\r\n"...), m.body...)
}

func appendField(b []byte, f field) []byte {
	return append(append(append(append(b, "\r\n"...), f.name...), ": "...), textproto.TrimString(f.value)...)
}

// roundTrip is http.RoundTripper's for a request whose context ctx is.
func (p *plain) roundTrip(ctx *limited, r *http.Request) (*http.Response, error) {
	if err := ctx.over(); err != nil {
		return nil, err
	}
	k, err := p.connect(ctx, r.URL)
	if err != nil {
		return nil, ctx.cause(err)
	}
	a := &answer{ctx: ctx, pool: p, conn: k, stop: context.AfterFunc(ctx.Context, k.cutOff)}
	resp, err := k.exchange(ctx, r)
	if err != nil {
		a.end(false)
		return nil, ctx.cause(err)
	}
	a.body, a.last = resp.Body, resp.Close || resp.StatusCode == http.StatusSwitchingProtocols
	resp.Body = a
	if resp.ContentLength == 0 {
		a.end(true)
	}
	return resp, nil
}

// connect takes the connection that was used last, if it is still open, or makes one.
func (p *plain) connect(ctx *limited, u *url.URL) (*kept, error) {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	for k := p.take(address); k != nil; k = p.take(address) {
		if k.ready(ctx.end) {
			ctx.wire.reused.Store(true)
			return k, nil
		}
		_ = k.Close()
	}
	ctx.wire.reused.Store(false)
	dialing, cancel := context.WithDeadline(ctx.Context, ctx.end)
	defer cancel()
	c, err := p.dial(dialing, "tcp", address)
	if err != nil {
		return nil, err
	}
	k := &kept{Conn: c, address: address}
	k.in = bufio.NewReaderSize(k, readBuffer)
	return k, c.SetDeadline(ctx.end)
}

func (p *plain) take(address string) *kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	list := p.idle[address]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	k := list[last]
	list[last] = nil
	p.idle[address] = list[:last]
	p.count--
	return k
}

// give keeps a connection for the next call.
func (p *plain) give(k *kept) {
	k.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[k.address]
	if p.closed || len(list) >= idlePerHost || p.count >= idleInAll {
		_ = k.Close()
		return
	}
	p.idle[k.address] = append(list, k)
	p.count++
	if p.sweep == nil {
		p.startSweep()
	}
}

// close ends the idle connections, and until the next call those that get idle.
func (p *plain) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.endIdle(0)
}

// endIdle ends the connections that nobody has used for so long, and looks again while there are others.
func (p *plain) endIdle(since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, list := range p.idle {
		n := 0
		for ; n < len(list) && time.Since(list[n].since) >= since; n++ {
			_ = list[n].Close()
		}
		p.count -= n
		p.idle[address] = slices.Delete(list, 0, n)
		if n == len(list) {
			delete(p.idle, address)
		}
	}
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	if p.count > 0 {
		p.startSweep()
	}
}

func (p *plain) startSweep() {
	p.sweep = time.AfterFunc(idleTimeout, func() { p.endIdle(idleTimeout) })
}

// limited is the context of a call whose connection has its deadline: nobody is woken when that is over.
type limited struct {
	context.Context
	end  time.Time
	wire *wire
	sent []byte // the request
}

// Deadline implements context.Context.
func (l *limited) Deadline() (time.Time, bool) { return l.end, true }

// Value implements context.Context.
func (l *limited) Value(key any) any {
	if key == (wireKey{}) {
		return l.wire
	}
	return l.Context.Value(key)
}

// over is what has ended the call, if anything has.
func (l *limited) over() error {
	if err := l.Err(); err != nil {
		return err
	}
	if !time.Now().Before(l.end) {
		return context.DeadlineExceeded
	}
	return nil
}

// cause is the error of a connection, or what has ended the call.
func (l *limited) cause(err error) error {
	if gone := l.Err(); gone != nil {
		return gone
	}
	return err
}

// kept is a connection: one call's, or idle. It is read through in.
type kept struct {
	net.Conn
	address string
	since   time.Time // when it became idle
	in      *bufio.Reader
	left    int64 // what may still be read
}

var errLongHeader = fmt.Errorf("the answer's headers are longer than %d bytes", maxHeader)

// Read implements io.Reader.
func (k *kept) Read(b []byte) (int, error) {
	if k.left <= 0 {
		return 0, errLongHeader
	}
	n, err := k.Conn.Read(b)
	k.left -= int64(n)
	return n, err
}

// ready gives an idle connection its deadline, and says whether it is open and not too old, and nothing came that nobody had asked for.
func (k *kept) ready(end time.Time) bool {
	c, ok := k.Conn.(syscall.Conn)
	if !ok || time.Since(k.since) >= idleTimeout || k.SetDeadline(end) != nil {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var now error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, now = syscall.Read(int(fd), b[:])
		return true
	})
	return err == nil && now == syscall.EAGAIN
}

// cutOff ends what is being written or read.
func (k *kept) cutOff() { _ = k.SetDeadline(time.Unix(1, 0)) }

// exchange writes a request, if it may still begin, and reads the answer's headers.
func (k *kept) exchange(ctx *limited, r *http.Request) (*http.Response, error) {
	w := ctx.wire
	if w.begin != nil {
		if err := w.allow(); err != nil {
			return nil, err
		}
		if err := ctx.over(); err != nil { // asking may take long
			return nil, err
		}
	}
	w.wrote.Store(true)
	if n, err := k.Write(ctx.sent); err != nil {
		w.wrote.Store(n > 0)
		return nil, err
	}
	k.left = maxHeader
	for {
		resp, err := http.ReadResponse(k.in, r)
		if err == nil && resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		k.left = math.MaxInt64
		return resp, err
	}
}

// answer is an answer's body; its connection is kept when it was read to its end.
type answer struct {
	ctx  *limited
	pool *plain
	conn *kept // nil after the end
	stop func() bool
	body io.Reader
	last bool // the endpoint closes the connection
}

// Read implements io.Reader.
func (a *answer) Read(b []byte) (int, error) {
	n, err := a.body.Read(b)
	if err == io.EOF {
		a.end(true)
	} else if err != nil {
		a.end(false)
		err = a.ctx.cause(err)
	}
	return n, err
}

// Close implements io.Closer. What was not read is not drained.
func (a *answer) Close() error {
	a.end(false)
	return nil
}

func (a *answer) end(whole bool) {
	k := a.conn
	if k == nil {
		return
	}
	a.conn = nil
	if a.stop() && whole && !a.last && k.in.Buffered() == 0 {
		a.pool.give(k)
		return
	}
	_ = k.Close()
}
