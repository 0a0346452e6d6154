package server

import (
	"net"
	"sync"
	"time"
)

// lazyListener accepts connections whose deadlines cost next to nothing. net/http sets eight of them for a request, and reads ahead for a byte, to notice
// a client that leaves: a goroutine, a system call that finds nothing and two more deadlines to end it. That is a tenth of a push.
type lazyListener struct{ net.Listener }

// Accept waits for the next connection.
func (l lazyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lazyConn{Conn: c}, nil
}

// lazyConn sets a deadline when something is read or written under it, unless the last one is about as good.
type lazyConn struct {
	net.Conn
	read, write deadline
}

// deadline is what was asked for, and what is set: at most a sixteenth of the time that there was is lost by keeping an earlier one.
type deadline struct {
	mu     sync.Mutex
	wanted time.Time
	left   time.Duration // until wanted, when it was asked for
	set    time.Time
}

// ask notes a deadline; one that has passed is to end what waits already, and is set at once.
func (d *deadline) ask(t time.Time, set func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if t.IsZero() {
		return nil
	}
	if d.left = time.Until(t); d.left > 0 {
		return nil
	}
	d.set = t
	return set(t)
}

// apply sets what was asked for.
func (d *deadline) apply(set func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if early := d.wanted.Sub(d.set); d.wanted.IsZero() == d.set.IsZero() && early >= 0 && early <= d.left/16 {
		return nil
	}
	d.set = d.wanted
	return set(d.wanted)
}

func (d *deadline) none() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted.IsZero()
}

// Read reads nothing when it is asked for one byte without a deadline: so reads net/http ahead, and only so, since requests are read under the limits'
// deadlines. What is called here ends by itself, whether its client waits or not.
func (c *lazyConn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.read.none() {
		return 0, nil
	}
	if err := c.read.apply(c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write writes under the deadline that was asked for.
func (c *lazyConn) Write(p []byte) (int, error) {
	if err := c.write.apply(c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SetReadDeadline holds for reads from now on, and when it has passed, for one that waits.
func (c *lazyConn) SetReadDeadline(t time.Time) error { return c.read.ask(t, c.Conn.SetReadDeadline) }

// SetWriteDeadline is the same for writes.
func (c *lazyConn) SetWriteDeadline(t time.Time) error {
	return c.write.ask(t, c.Conn.SetWriteDeadline)
}

// SetDeadline is both.
func (c *lazyConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}
