package importer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// MaxReply limits the memory for an old system's reply to one request, by the size that the reply announces: enough for
// a claim of 500 jobs of 1 MiB each. Without a limit, another kind of server, or a hostile one, could exhaust this
// machine's memory.
const MaxReply = 512 << 20

// ReplyError is the error for a longer reply.
func ReplyError(addr string) error {
	return fmt.Errorf("%s replies to one request with more than %d MiB: is it the right address?", addr, MaxReply>>20)
}

// NewClient connects to an old Redis, whose replies it bounds.
func NewClient(to *redis.Options) *redis.Client {
	o := *to
	dial := redis.NewDialer(&o)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		bounded := &boundedConn{Conn: c, addr: addr}
		if socket, ok := c.(syscall.Conn); ok { // not with TLS
			return socketConn{bounded, socket}, nil
		}
		return bounded, nil
	}
	return redis.NewClient(&o)
}

// boundedConn is a connection to a Redis that checks the sizes that replies announce. go-redis allocates memory for
// them before the data has arrived: 12 bytes can announce a list of gigabytes, and its first element another one.
type boundedConn struct {
	net.Conn
	addr  string
	spent int64  // since the last request
	skip  int64  // bytes of a value that are still to come
	line  []byte // the beginning of the current line
	long  int    // its length so far
	err   error
}

// socketConn gives go-redis access to the socket, to detect idle connections that the server has closed.
type socketConn struct {
	*boundedConn
	syscall.Conn
}

// Write implements io.Writer.
func (c *boundedConn) Write(b []byte) (int, error) {
	c.spent = 0
	return c.Conn.Write(b)
}

// Read implements io.Reader.
func (c *boundedConn) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(b)
	if c.scan(b[:n]); c.err != nil {
		return 0, c.err
	}
	return n, err
}

// Limits of a line. maxLine is longer than any with a type and a number; longestLine than any status or error, of which
// go-redis has several copies in memory.
const (
	maxLine     = 32
	longestLine = 1 << 20
)

func (c *boundedConn) scan(b []byte) {
	for len(b) > 0 && c.err == nil {
		if c.skip > 0 {
			n := min(c.skip, int64(len(b)))
			b, c.skip = b[n:], c.skip-n
			continue
		}
		end := bytes.IndexByte(b, '\n') + 1
		whole := end > 0
		if !whole {
			end = len(b)
		}
		c.line = append(c.line, b[:min(end, maxLine-len(c.line))]...)
		c.spend(int64(end))
		if c.long += end; c.long > longestLine {
			c.err = fmt.Errorf("%s replies with a line of more than %d MiB: is it the right address?",
				c.addr, longestLine>>20)
		}
		if b = b[end:]; whole {
			c.announced()
			c.line, c.long = c.line[:0], 0
		}
	}
}

// itemSize is the minimum memory that go-redis allocates for an element of a list.
const itemSize = 16

// announced spends what a line announces: a value's bytes, or the elements of a list or map.
func (c *boundedConn) announced() {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(c.line[1:])), 10, 64)
	if len(c.line) == maxLine { // the rest of the number is unknown
		n, err = MaxReply+1, nil
	}
	if err != nil || n < 0 {
		return // not a length, or that of nil
	}
	switch c.line[0] {
	case '$', '=', '!':
		c.skip = n + 2
		c.spend(n)
	case '*', '~', '>', '%', '|':
		c.spend(2 * itemSize * min(n, MaxReply))
	}
}

func (c *boundedConn) spend(n int64) {
	if c.spent += min(n, MaxReply+1); c.spent > MaxReply {
		c.err = ReplyError(c.addr)
	}
}
