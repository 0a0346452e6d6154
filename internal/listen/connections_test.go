package listen

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are made by dial, so that tests can use fake time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// dial waits until the listener accepts; false: it did not within a minute.
func (p *pipes) dial(t *testing.T) (net.Conn, bool) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	select {
	case p.conns <- near:
		return far, true
	case <-time.After(time.Minute):
		return nil, false
	}
}

// accepting accepts until the listener is closed and returns the connections.
func accepting(l *limited) <-chan net.Conn {
	accepted := make(chan net.Conn, 100)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	return accepted
}

// request starts a request on an accepted connection; it ends when end is called.
func request(c net.Conn) (end func()) {
	started, ended, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := track(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(started)
		<-ended
	}))
	r := httptest.NewRequestWithContext(connContext(context.Background(), c), "GET", "/", nil)
	go func() {
		defer close(done)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-started
	return func() {
		close(ended)
		<-done
	}
}

func isClosed(far net.Conn) bool {
	_ = far.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := far.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// TestTheQuietestConnectionGivesWay: when the last place is taken, only the connection with the oldest last request is
// closed.
func TestTheQuietestConnectionGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := limitConns(p, 3)
		accepted := accepting(l)
		clients := make([]net.Conn, 4)
		wantClosed := func(want ...bool) {
			t.Helper()
			for i, far := range clients {
				if far != nil && isClosed(far) != want[i] {
					t.Errorf("client %d is closed: %v", i, !want[i])
				}
			}
		}
		clients[0], _ = p.dial(t)
		clients[1], _ = p.dial(t)
		time.Sleep(time.Millisecond)
		request(<-accepted)() // of client 0, so client 1 is the longest idle
		time.Sleep(time.Millisecond)
		clients[2], _ = p.dial(t)
		wantClosed(false, false, false) // none has been idle for a second
		time.Sleep(2 * time.Second)
		wantClosed(false, true, false)
		clients[3], _ = p.dial(t)
		time.Sleep(time.Second / 2)
		wantClosed(true, true, false, false)
		_ = l.Close()
	})
}

func TestABusyConnectionIsNeverClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := limitConns(p, 1)
		accepted := accepting(l)
		busy, _ := p.dial(t)
		end := request(<-accepted)
		if _, ok := p.dial(t); ok || isClosed(busy) {
			t.Errorf("another connection is accepted: %v; the busy one is closed: %v", ok, isClosed(busy))
		}
		end()
		if _, ok := p.dial(t); !ok {
			t.Error("no connection is accepted after the request has ended")
		}
		_ = l.Close()
	})
}

func TestAClosedConnectionFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := limitConns(p, 1)
		accepted := accepting(l)
		_, _ = p.dial(t)
		c := <-accepted
		end := request(c) // the listener does not close it
		go func() { time.Sleep(10 * time.Second); _ = c.Close() }()
		began := time.Now()
		if _, ok := p.dial(t); !ok || time.Since(began) != 10*time.Second {
			t.Errorf("accepted: %v, after %s", ok, time.Since(began))
		}
		end()
		_ = l.Close()
	})
}

func TestCloseEndsAnAcceptThatWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := limitConns(p, 1)
		accepted := accepting(l)
		_, _ = p.dial(t)
		end := request(<-accepted)
		synctest.Wait()
		_ = l.Close()
		if _, open := <-accepted; open {
			t.Error("a closed listener accepted")
		}
		end()
	})
}

func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := limitConns(p, 10)
		accepted := accepting(l)
		_, _ = p.dial(t)
		_, _ = p.dial(t)
		one, two := <-accepted, <-accepted
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
		took := func(wait func(time.Duration)) time.Duration {
			began := time.Now()
			wait(time.Minute)
			return time.Since(began)
		}
		later := func(f func()) { go func() { time.Sleep(time.Second); f() }() }

		request(one)()
		if d := took(l.WaitForFirstRequests); d != time.Minute {
			t.Errorf("with a connection without requests it waited %s", d)
		}
		later(func() { request(two)() })
		if d := took(l.WaitForFirstRequests); d != time.Second {
			t.Errorf("it waited %s for a request that arrived after 1s", d)
		}
		if d := took(l.WaitForEnd); d != time.Minute {
			t.Errorf("with open connections it waited %s", d)
		}
		_ = one.Close()
		later(func() { _, _ = two.Close(), two.Close() })
		if d := took(l.WaitForEnd); d != time.Second {
			t.Errorf("it waited %s for connections that ended after 1s", d)
		}
	})
}

func TestWithoutAListenerRequestsAreServed(t *testing.T) {
	h := track(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusTeapot {
		t.Errorf("answered %d", w.Code)
	}
}

func TestMaxLeavesDescriptors(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if got := maxConns(1); got != 1 {
		t.Errorf("Max(1) = %d", got)
	}
	if got := maxConns(int(files.Cur)); got >= int(files.Cur) || got < 1 {
		t.Errorf("of %d descriptors %d connections may have one", files.Cur, got)
	}
}

// TestAHalfSentRequestGivesWay: clients that never send complete requests block no other client.
func TestAHalfSentRequestGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := limitConns(p, 1)
		srv := &http.Server{
			ConnContext: connContext,
			Handler: track(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
			})),
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		half, _ := p.dial(t)
		if _, err := io.WriteString(half, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
		if _, ok := p.dial(t); !ok {
			t.Error("no other connection is accepted")
		}
		if !isClosed(half) {
			t.Error("the half-sent request keeps its connection")
		}
		_ = srv.Close()
		<-served
	})
}

// TestAnUnreadBodyDelaysNoAnswer: a request that is refused without its body is answered before the client sends it.
func TestAnUnreadBodyDelaysNoAnswer(t *testing.T) {
	for name, header := range map[string]string{
		"expected": "Expect: 100-continue\r\nContent-Length: 5\r\n", "large": "Content-Length: 1000000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				srv := &http.Server{
					ReadTimeout: time.Minute, ConnContext: connContext,
					Handler: track(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						w.WriteHeader(http.StatusUnauthorized)
					})),
				}
				served := make(chan error, 1)
				go func() { served <- srv.Serve(limitConns(p, 2)) }()
				client, _ := p.dial(t)
				began := time.Now()
				if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil || resp.StatusCode != http.StatusUnauthorized || time.Since(began) != 0 {
					t.Errorf("%v, %v after %s", resp, err, time.Since(began))
				}
				_, _ = io.Copy(io.Discard, client) // until the server closes the connection
				_ = srv.Close()
				<-served
			})
		})
	}
}
