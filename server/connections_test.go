package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/server"
)

// TestLimitSlowloris: half-open clients, more than the limit, do not block a normal client.
func TestLimitSlowloris(t *testing.T) {
	for name, tt := range map[string]struct{ places, halfOpen int }{"places left": {4000, 2000},
		"all places taken": {40, 100}} {
		t.Run(name, func(t *testing.T) {
			r := start(t, listen(t), func(o *server.Options) {
				o.Limits = server.Limits{MaxConns: tt.places, HeaderTimeout: time.Minute, ReadTimeout: time.Minute}
			})
			for i := range tt.halfOpen {
				c := dial(t, r.addr)
				begin := []string{"", "P", "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nX-",
					"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"}[i%4]
				if _, err := io.WriteString(c, begin); err != nil {
					t.Fatal(err)
				}
			}
			resp, err := r.push(newClient(t))
			if err != nil || resp.StatusCode != http.StatusCreated {
				t.Errorf("%v %v", resp, err)
			}
		})
	}
}

// TestLimitBusyConnections: connections with a request in progress are never closed; new ones wait for a place.
func TestLimitBusyConnections(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.Limits.MaxConns = 2 })
	r.jobs.hold, r.jobs.holding = make(chan struct{}), make(chan struct{}, 5)
	client := newClient(t)
	status := make(chan int, 5)
	for range 5 {
		go func() {
			resp, err := r.push(client)
			if err != nil {
				t.Error(err)
				status <- 0
				return
			}
			status <- resp.StatusCode
		}()
	}
	for range 2 {
		<-r.jobs.holding
	}
	select {
	case <-r.jobs.holding:
		t.Error("a third connection was served")
	case <-time.After(1500 * time.Millisecond): // longer than an idle connection would be kept
	}
	close(r.jobs.hold)
	for range 5 {
		if got := <-status; got != 201 {
			t.Errorf("answered %d", got)
		}
	}
}

func TestLimitOfHeaders(t *testing.T) {
	r := start(t, listen(t))
	c := dial(t, r.addr)
	if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Big: %s\r\n\r\n",
		strings.Repeat("x", 64<<10)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answered %d", resp.StatusCode)
	}
}

// TestLimitOfSlowHeaders: a client that does not finish its header is disconnected.
func TestLimitOfSlowHeaders(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) {
		o.Limits.HeaderTimeout, o.Limits.ReadTimeout = 50*time.Millisecond, 50*time.Millisecond
	})
	for _, begin := range []string{"GET /healthz HTT", "POST " + orders +
		" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + r.token + "\r\nContent-Length: 10\r\n\r\n{"} {
		c := dial(t, r.addr)
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil {
			t.Errorf("not closed: %v", err)
		}
		if strings.HasPrefix(begin, "POST") && !strings.Contains(string(answer), "arrives too slowly") {
			t.Errorf("answered %q", answer)
		}
	}
	if got := r.jobs.changes(); len(got) > 0 {
		t.Errorf("changed %v", got)
	}
}

// pipes is a listener whose connections are pipes: each write is a separate read.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (l *pipes) dial(t *testing.T) net.Conn {
	near, far := net.Pipe()
	t.Cleanup(func() { _ = near.Close() })
	l.conns <- far
	return near
}

// TestRequestsInPieces: net/http's buffer has 4096 bytes, and its last byte is read separately; data that follows a
// request is the next request.
func TestRequestsInPieces(t *testing.T) {
	l := newPipes()
	r := start(t, l)
	post := func(id string) string {
		body := `{"id":"` + id + `","body":1,"delay":60}`
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
			orders,
			r.token, len(body), body)
	}
	first, last := "GET /healthz?", "a HTTP/1.1\r\nHost: x\r\n\r\n"+post("one")+post("two")+post("three")
	first += strings.Repeat("a", 4095-len(first)) // a line without an end so far
	c := l.dial(t)
	answers := bufio.NewReader(c)
	go func() {
		for _, piece := range []string{first, last[:1], last[1:]} {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, want := range []int{200, 201, 201, 201} {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
			t.Errorf("answered %d, %v; want %d", resp.StatusCode, err, want)
		}
	}
}
