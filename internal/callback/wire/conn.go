package wire

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// conn is a connection that counts its reads, and that may have to call begin before the next write.
type conn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
	next   atomic.Pointer[Exchange]
	reads  atomic.Int64
	before atomic.Int64 // value of reads when the connection was taken, then when the request was written
	sent   atomic.Int64 // bytes written
	start  atomic.Int64 // value of sent when the last request was written
	reset  atomic.Bool  // the kernel reports a reset only once
	missed atomic.Bool  // see missedRequest; set when the connection is closed
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	x := c.next.Swap(nil)
	if x == nil {
		return c.put(b)
	}
	if err := x.mayBegin(); err != nil {
		return 0, err
	}
	if x.reused.Load() && (c.readSinceWrite() || !silent(c.Conn)) {
		return 0, errUnasked
	}
	c.before.Store(c.reads.Load())
	return x.write(c, b)
}

// write writes the first part of a request.
func (x *Exchange) write(c *conn, b []byte) (int, error) {
	x.wrote.Store(true)
	c.start.Store(c.sent.Load())
	n, err := c.put(b)
	x.wrote.Store(err == nil || n > 0)
	return n, err
}

func (c *conn) put(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	c.note(err)
	return n, err
}

// silent reports whether a connection is open and has received no unrequested data.
func silent(c net.Conn) bool {
	silent := false
	control(c, func(fd int) {
		_, err := peek(fd)
		silent = errors.Is(err, syscall.EAGAIN)
	})
	return silent
}

func peek(fd int) (int, error) {
	var b [1]byte
	n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, err
}

func control(c net.Conn, f func(fd int)) {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.reads.Add(1)
	}
	c.note(err)
	return n, err
}

func (c *conn) note(err error) {
	if errors.Is(err, syscall.ECONNRESET) {
		c.reset.Store(true)
	}
}

// readSinceWrite reports whether data arrived after the last request was written. If not, the response arrived before
// it.
func (c *conn) readSinceWrite() bool { return c.reads.Load() != c.before.Load() }

// Close implements net.Conn, for a connection whose request may have been missed.
func (c *conn) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
		c.missed.Store(c.missedRequest())
	}
	return c.Conn.Close()
}

// drop closes a connection without a request.
func (c *conn) drop() {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	_ = c.Conn.Close()
}
