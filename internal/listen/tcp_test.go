package listen_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/test/wait"
)

// echo is a server that answers lines. It answers the line "slow" when release is closed.
type echo struct {
	addr    string
	stop    context.CancelFunc
	ended   chan error
	began   atomic.Int32
	release chan struct{}
}

func startEcho(t *testing.T, o listen.Options) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &echo{addr: l.Addr().String(), stop: cancel, ended: make(chan error, 1), release: make(chan struct{})}
	go func() { e.ended <- listen.TCP(ctx, l, o, e.serve) }()
	t.Cleanup(cancel)
	return e
}

func (e *echo) serve(_ context.Context, c net.Conn) {
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		listen.BeginRequest(c)
		e.began.Add(1)
		if line == "slow\n" {
			<-e.release
		}
		_, err = io.WriteString(c, line)
		if !listen.EndRequest(c) || err != nil {
			return
		}
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only ends a test that would hang
	return c
}

func ask(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line); err != nil {
		t.Fatal(err)
	}
}

func answered(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("answered %q, %v, want %q", b, err, want)
	}
}

func TestAStopClosesIdleConnectionsAndAnswersTheRest(t *testing.T) {
	e := startEcho(t, listen.Options{})
	idle, busy := dial(t, e.addr), dial(t, e.addr)
	ask(t, idle, "x\n")
	answered(t, idle, "x\n")
	ask(t, busy, "slow\n")
	wait.For(t, "the slow request", func() bool { return e.began.Load() == 2 })
	e.stop()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v, want its end", err)
	}
	close(e.release)
	answered(t, busy, "slow\n")
	if _, err := busy.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the busy connection after its answer: %v, want its end", err)
	}
	if err := <-e.ended; err != nil {
		t.Error(err)
	}
}

func TestAReplacedListenerKeepsItsConnectionsForAWhile(t *testing.T) {
	e := startEcho(t, listen.Options{Replaced: func() bool { return true }})
	c := dial(t, e.addr)
	ask(t, c, "x\n")
	answered(t, c, "x\n")
	e.stop()
	ask(t, c, "y\n")
	answered(t, c, "y\n")
	_ = c.Close()
	if err := <-e.ended; err != nil {
		t.Error(err)
	}
}

func TestARequestThatDoesNotEndIsClosedAtTheTimeout(t *testing.T) {
	e := startEcho(t, listen.Options{ShutdownTimeout: 50 * time.Millisecond})
	c := dial(t, e.addr)
	ask(t, c, "slow\n")
	wait.For(t, "the request", func() bool { return e.began.Load() == 1 })
	e.stop()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection: %v, want its end", err)
	}
	close(e.release)
	if err := <-e.ended; err == nil {
		t.Error("the stop does not report the aborted request")
	}
}

func TestIdleConnectionsGiveWayToNewOnes(t *testing.T) {
	e := startEcho(t, listen.Options{MaxConns: 2})
	first, busy := dial(t, e.addr), dial(t, e.addr)
	ask(t, first, "x\n")
	answered(t, first, "x\n")
	ask(t, busy, "slow\n")
	third := dial(t, e.addr)
	ask(t, third, "z\n")
	answered(t, third, "z\n")
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v, want its end", err)
	}
	close(e.release)
	answered(t, busy, "slow\n")
	e.stop()
	if err := <-e.ended; err != nil {
		t.Error(err)
	}
}
