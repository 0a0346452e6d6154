package server

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// countingConn counts how often a deadline is really set.
type countingConn struct {
	net.Conn
	reads, writes int
}

func (c *countingConn) SetReadDeadline(t time.Time) error {
	c.reads++
	return c.Conn.SetReadDeadline(t)
}

func (c *countingConn) SetWriteDeadline(t time.Time) error {
	c.writes++
	return c.Conn.SetWriteDeadline(t)
}

func lazyPipe() (lazy *lazyConn, counting *countingConn, other net.Conn) {
	near, far := net.Pipe()
	counting = &countingConn{Conn: near}
	return &lazyConn{Conn: counting}, counting, far
}

func TestALazyDeadlineHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy, _, other := lazyPipe()
		defer other.Close()
		defer lazy.Close()
		go func() { _, _ = io.Copy(io.Discard, other) }()
		b := make([]byte, 10)
		for _, limit := range []time.Duration{time.Minute, time.Millisecond, time.Hour, 50 * time.Millisecond} {
			for _, after := range []time.Duration{0, limit / 20, limit * 2} { // as requests follow each other
				time.Sleep(after)
				began := time.Now()
				_ = lazy.SetReadDeadline(began.Add(limit))
				_, err := lazy.Read(b)
				if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took > limit || took < limit*15/16 {
					t.Errorf("a read under %s took %s: %v", limit, took, err)
				}
				_ = lazy.SetWriteDeadline(time.Now().Add(limit))
				if _, err := lazy.Write(b); err != nil {
					t.Errorf("a write under %s: %v", limit, err)
				}
			}
		}
	})
}

func TestDeadlinesThatHardlyDifferAreSetOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy, counting, other := lazyPipe()
		defer other.Close()
		defer lazy.Close()
		go func() { _, _ = io.Copy(other, other) }()
		b := make([]byte, 10)
		for range 1000 {
			for _, limit := range []time.Duration{10 * time.Second, 0, 30 * time.Second, time.Minute} { // only the last is read under
				at := time.Time{}
				if limit > 0 {
					at = time.Now().Add(limit)
				}
				_, _ = lazy.SetReadDeadline(at), lazy.SetWriteDeadline(at)
			}
			if _, err := lazy.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(lazy, b); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if counting.reads != 1 || counting.writes != 1 {
			t.Errorf("in a second of 1000 requests the deadlines were set %d and %d times", counting.reads, counting.writes)
		}
	})
}

func TestADeadlineThatHasPassedEndsAReadThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy, _, other := lazyPipe()
		defer other.Close()
		defer lazy.Close()
		_ = lazy.SetReadDeadline(time.Now().Add(time.Hour))
		ended := make(chan error)
		go func() {
			_, err := lazy.Read(make([]byte, 10))
			ended <- err
		}()
		synctest.Wait()
		_ = lazy.SetReadDeadline(time.Unix(1, 0))
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		_ = lazy.SetReadDeadline(time.Time{})
		go func() { _, _ = other.Write([]byte("xy")) }()
		if n, err := lazy.Read(make([]byte, 2)); n != 2 || err != nil {
			t.Errorf("without a deadline again: %d, %v", n, err)
		}
	})
}
