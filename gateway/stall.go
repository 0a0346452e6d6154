package gateway

import (
	"net"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/listen"
)

// stallTimeout is how long a client may leave sent data unread. Until then its request is in progress, so its
// connection is not closed in favor of a new one, and the answer takes up memory.
const stallTimeout = 15 * time.Second

// stallListener accepts connections whose writes fail when the client reads nothing for a while. http.Server's
// WriteTimeout would also cut off answers that waited for a job, and long answers to slow readers.
type stallListener struct {
	net.Listener
	timeout time.Duration
}

func (l stallListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return stallConn{listen.HalfConn{Conn: c}, l.timeout}, nil
}

type stallConn struct {
	listen.HalfConn
	timeout time.Duration
}

// writeStep is how much a client must read within the timeout, in addition to what the connection buffers.
const writeStep = 64 << 10

// Write implements io.Writer.
func (c stallConn) Write(b []byte) (n int, err error) {
	for step := range slices.Chunk(b, writeStep) {
		_ = c.SetWriteDeadline(time.Now().Add(c.timeout))
		written, err := c.Conn.Write(step)
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}
