package wire

import (
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
	before atomic.Int64 // value of reads when the last request was written
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	x := c.next.Swap(nil)
	if x == nil {
		return c.Conn.Write(b)
	}
	if err := x.mayBegin(); err != nil {
		return 0, err
	}
	if x.reused.Load() && !silent(c.Conn) {
		return 0, errUnasked
	}
	c.before.Store(c.reads.Load())
	return x.write(c.Conn, b)
}

// write writes the first part of a request.
func (x *Exchange) write(c net.Conn, b []byte) (int, error) {
	x.wrote.Store(true)
	n, err := c.Write(b)
	x.wrote.Store(err == nil || n > 0)
	return n, err
}

// silent reports whether a connection is open and has received no unrequested data.
func silent(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	waiting := true
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		waiting = err != syscall.EAGAIN
	})
	return err == nil && !waiting
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.reads.Add(1)
	}
	return n, err
}

// readSinceWrite reports whether data arrived after the last request was written. If not, the response arrived before
// it.
func (c *conn) readSinceWrite() bool { return c.reads.Load() != c.before.Load() }

// Close implements net.Conn.
func (c *conn) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
