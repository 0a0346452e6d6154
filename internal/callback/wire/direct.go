package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// directLimit is the maximum size of a request that is sent directly. A direct request is written before anything is
// read, so only net/http notices an endpoint that responds before it has read a long request.
const directLimit = 16 << 10

// mayGoDirectly reports whether a request is short, without TLS, and its host needs no conversion before it is dialled.
func mayGoDirectly(r *http.Request) bool {
	special := func(c rune) bool { return c >= utf8.RuneSelf || c == '%' }
	return r.URL.Scheme == "http" && r.ContentLength+int64(len(r.URL.RawQuery)) <= directLimit &&
		!strings.ContainsFunc(r.URL.Host, special)
}

// direct is a connection that the calling goroutine reads and writes. It belongs to one call or is idle.
type direct struct {
	*conn
	in       *bufio.Reader
	out      *bufio.Writer
	writer   *Exchange // of the request
	left     int64     // bytes of headers that may still be read
	answered time.Time // when it became idle
}

var errLongHeader = fmt.Errorf("response headers exceed %d bytes", maxHeader)

// overDirect is RoundTrip over a direct connection.
func (x *Exchange) overDirect(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	d, err := x.connect(ctx, r.URL)
	if err != nil {
		return nil, cause(ctx, err)
	}
	a := &answer{exchange: x, conn: d, ctx: ctx, stop: context.AfterFunc(ctx, d.cutOff)}
	resp, err := d.send(x, r)
	if err != nil {
		a.end(false)
		return nil, cause(ctx, err)
	}
	a.body, a.last = resp.Body, resp.Close || r.Close || resp.StatusCode == http.StatusSwitchingProtocols
	resp.Body = a
	if resp.ContentLength == 0 {
		a.end(true)
	}
	return resp, nil
}

// connect returns a connection on which the request may be written now: an idle one without unread data, or a new one.
func (x *Exchange) connect(ctx context.Context, u *url.URL) (*direct, error) {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d := x.used.take()
		reused := d != nil
		if !reused {
			c, err := x.pools.dial(ctx, address)
			if err != nil {
				x.use(nil, false)
				return nil, err
			}
			d = &direct{conn: c}
			d.in, d.out = bufio.NewReaderSize(d, bufferSize), bufio.NewWriterSize(d, bufferSize)
		}
		x.use(d.conn, reused)
		if err := x.mayBegin(); err != nil {
			d.drop()
			return nil, err
		}
		if err := ctx.Err(); err != nil { // begin may take long
			d.drop()
			return nil, err
		}
		if !reused || silent(d.Conn) {
			return d, nil
		}
		d.drop()
	}
}

// send writes a request and reads the response headers.
func (d *direct) send(x *Exchange, r *http.Request) (*http.Response, error) {
	d.writer, d.left = x, maxHeader
	if err := r.Write(d.out); err != nil {
		return nil, err
	}
	if err := d.out.Flush(); err != nil {
		return nil, err
	}
	for {
		if _, err := d.in.Peek(1); err != nil {
			return nil, err
		}
		x.answered.Store(true)
		resp, err := http.ReadResponse(d.in, r)
		if err == nil && resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		d.left = math.MaxInt64
		return resp, err
	}
}

// Write implements io.Writer.
func (d *direct) Write(b []byte) (int, error) {
	if x := d.writer; x != nil {
		d.writer = nil
		return x.write(d.conn, b)
	}
	return d.put(b)
}

// Read implements io.Reader.
func (d *direct) Read(b []byte) (int, error) {
	if d.left <= 0 {
		return 0, errLongHeader
	}
	n, err := d.conn.Read(b)
	d.left -= int64(n)
	return n, err
}

func (d *direct) cutOff() { _ = d.SetDeadline(time.Unix(1, 0)) }

// answer is the body of a response. Its connection is kept if the body was read to the end.
type answer struct {
	exchange *Exchange
	conn     *direct // nil at the end
	ctx      context.Context
	stop     func() bool
	body     io.Reader
	last     bool // the endpoint closes the connection
}

// Read implements io.Reader.
func (a *answer) Read(b []byte) (int, error) {
	n, err := a.body.Read(b)
	if errors.Is(err, io.EOF) {
		a.end(true)
	} else if err != nil {
		a.end(false)
		err = cause(a.ctx, err)
	}
	return n, err
}

// Close implements io.Closer. It does not drain the rest.
func (a *answer) Close() error {
	a.end(false)
	return nil
}

func (a *answer) end(whole bool) {
	d := a.conn
	if d == nil {
		return
	}
	a.conn = nil
	if a.stop() && whole && !a.last && d.in.Buffered() == 0 {
		a.exchange.used.give(d)
		return
	}
	_ = d.Close()
}

// cause returns what ended the context, or else err.
func cause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}
