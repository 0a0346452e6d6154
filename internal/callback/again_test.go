package callback

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// closing answers every second request of a connection, and closes it after it has read the other one, or a part of it.
func closing(t *testing.T, part bool) (address string, requests *atomic.Int32) {
	requests = &atomic.Int32{}
	address, _ = raw(t, func(_ int, c net.Conn) {
		for b := bufio.NewReader(c); ; {
			r, err := http.ReadRequest(b)
			if err != nil {
				return
			}
			if requests.Add(1)%2 == 0 && part {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if requests.Load()%2 == 0 {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	return address, requests
}

// TestEveryRequestOfAnEndpointIsAnAttempt, also over a connection that the endpoint closes in the middle: nothing
// repeats a request that it may have read.
func TestEveryRequestOfAnEndpointIsAnAttempt(t *testing.T) {
	cases := map[string]EndpointSpec{
		"POST":           {Method: "POST"},
		"long POST":      {Method: "POST"},
		"PUT":            {Method: "PUT"},
		"GET":            {Method: "GET"},
		"idempotent":     {Method: "POST", Headers: map[string]string{"Idempotency-Key": "k"}},
		"idempotent PUT": {Method: "PUT", Headers: map[string]string{"X-Idempotency-Key": "k"}},
	}
	for name, s := range cases {
		for _, part := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", part), func(t *testing.T) {
				address, requests := closing(t, part)
				s.URL = address
				c, e, r := caller(t, Options{}), endpoint(t, s), job()
				if strings.HasPrefix(name, "long") {
					r.Body = longBody()
				}
				for call := range int32(10) {
					o := c.Do(t.Context(), e, r)
					if failed := o.Class == Failure && o.Reason == "reset"; failed != (call%2 == 1) {
						t.Fatalf("call %d: %+v", call, o)
					}
					if n := requests.Load(); n != call+1 {
						t.Fatalf("%d calls arrived as %d requests", call+1, n)
					}
				}
			})
		}
	}
}

// TestConnectionsThatAreClosedAfterEachAnswerRepeatNothing, although the endpoint does not announce it: at worst it
// closes one before it has read the next request, and that attempt fails.
func TestConnectionsThatAreClosedAfterEachAnswerRepeatNothing(t *testing.T) {
	for _, body := range [][]byte{job().Body, longBody()} {
		var requests, delivered int32
		address, _ := raw(t, func(_ int, c net.Conn) {
			if readRequest(c) == nil {
				atomic.AddInt32(&requests, 1)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		c, e, r := caller(t, Options{}), endpoint(t, EndpointSpec{URL: address}), job()
		r.Body = body
		for call := range 200 {
			o := c.Do(t.Context(), e, r)
			if o.Class == Success {
				delivered++
			} else if o.Reason != "reset" {
				t.Fatalf("call %d: %+v", call, o)
			}
		}
		if n := atomic.LoadInt32(&requests); n != delivered || n < 100 {
			t.Errorf("%d calls were delivered, %d requests arrived", delivered, n)
		}
	}
}

// relay forwards connections to an address until the test changes its behaviour.
type relay struct {
	url   string
	mu    sync.Mutex
	conns []*relayed
}

type relayed struct {
	client, server net.Conn
	lost           atomic.Bool
}

func newRelay(t *testing.T, url string) *relay {
	scheme, address, _ := strings.Cut(url, "://")
	r := &relay{}
	url, _ = raw(t, func(_ int, c net.Conn) {
		s, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		p := &relayed{client: c, server: s}
		r.mu.Lock()
		r.conns = append(r.conns, p)
		r.mu.Unlock()
		go p.pass(c, s)
		p.pass(s, c)
		_ = s.Close()
	})
	r.url = strings.Replace(url, "http", scheme, 1)
	t.Cleanup(func() { r.each(func(p *relayed) { _ = p.client.Close() }) })
	return r
}

func (p *relayed) pass(to, from net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if !p.lost.Load() {
			_, _ = to.Write(b[:n])
		}
	}
}

// each calls a function for every connection so far.
func (r *relay) each(do func(*relayed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.conns {
		do(p)
	}
}

// relayedEndpoint serves http, https or h2 over a relay.
func relayedEndpoint(t *testing.T, kind string, h http.HandlerFunc) (*relay, Options) {
	s := httptest.NewUnstartedServer(h)
	t.Cleanup(s.Close)
	if kind == "http" {
		s.Start()
		return newRelay(t, s.URL), Options{}
	}
	s.EnableHTTP2 = kind == "h2"
	s.StartTLS()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return newRelay(t, s.URL), Options{RootCAs: roots}
}

func answered(http.ResponseWriter, *http.Request) {}

// TestALostConnectionIsNotUsedAfterATimeout: the network drops a connection silently; the next attempt uses another
// one.
func TestALostConnectionIsNotUsedAfterATimeout(t *testing.T) {
	for _, kind := range []string{"http", "https", "h2"} {
		t.Run(kind, func(t *testing.T) {
			r, o := relayedEndpoint(t, kind, answered)
			c, e := caller(t, o), endpoint(t, EndpointSpec{URL: r.url})
			both := job() // two connections, each with one request
			both.Begin = func() error {
				if o := c.Do(t.Context(), e, job()); o.Class != Success {
					t.Errorf("the inner call: %+v", o)
				}
				return nil
			}
			if o := c.Do(t.Context(), e, both); o.Class != Success {
				t.Fatalf("%+v", o)
			}
			r.each(func(p *relayed) { p.lost.Store(true) })
			late := job()
			late.Timeout = 200 * time.Millisecond
			if o := c.Do(t.Context(), e, late); o.Reason != "timeout" {
				t.Fatalf("over a lost connection: %+v", o)
			}
			if o := c.Do(t.Context(), e, job()); o.Class != Success {
				t.Fatalf("after the timeout: %+v", o)
			}
		})
	}
}

// TestAConnectionThatIsClosedMeanwhileCostsNoAttempt: the endpoint closes it after it was taken from the pool, before
// the request.
func TestAConnectionThatIsClosedMeanwhileCostsNoAttempt(t *testing.T) {
	for _, kind := range []string{"http", "https"} {
		for _, body := range [][]byte{job().Body, longBody()} {
			var requests atomic.Int32
			r, o := relayedEndpoint(t, kind, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
			c, e := caller(t, o), endpoint(t, EndpointSpec{URL: r.url})
			first, cut := job(), job()
			first.Body, cut.Body = body, body
			if o := c.Do(t.Context(), e, first); o.Class != Success {
				t.Fatalf("%+v", o)
			}
			cut.Begin = sync.OnceValue(func() error {
				r.each(func(p *relayed) { _ = p.client.Close() })
				return nil
			})
			if o := c.Do(t.Context(), e, cut); o.Class != Success || requests.Load() != 2 {
				t.Fatalf("%s: %+v, %d requests", kind, o, requests.Load())
			}
		}
	}
}

// TestUnsolicitedDataIsNoAnswer: unsolicited data is no answer to another topic's call to the same host, nor to the
// same topic's.
func TestUnsolicitedDataIsNoAnswer(t *testing.T) {
	const gone = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
	for _, topic := range []string{"shop.close", "other"} {
		for _, body := range [][]byte{job().Body, longBody()} {
			url, accepted := answering(t, []string{fine, fine, fine}, nil)
			r := newRelay(t, url)
			c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: r.url})
			first, next := job(), job()
			first.Body, next.Body, next.Topic = body, body, topic
			if o := c.Do(t.Context(), e, first); o.Class != Success {
				t.Fatalf("%+v", o)
			}
			next.Begin = sync.OnceValue(func() error {
				r.mu.Lock()
				defer r.mu.Unlock()
				_, err := io.WriteString(r.conns[0].client, gone)
				time.Sleep(20 * time.Millisecond) // so that it is received
				return err
			})
			if o := c.Do(t.Context(), e, next); o.Class != Success || accepted() != 2 {
				t.Errorf("topic %s, %d bytes: %+v over %d connections", topic, len(body), o, accepted())
			}
		}
	}
}

// TestATimeoutLeavesConnectionsThatWork: of the connections that topics share, it closes only its own, and those
// without an answer since.
func TestATimeoutLeavesConnectionsThatWork(t *testing.T) {
	slow := make(chan struct{})
	defer close(slow)
	r, o := relayedEndpoint(t, "http", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-slow
		}
	})
	c := caller(t, o)
	quick, hangs := endpoint(t, EndpointSpec{URL: r.url}), endpoint(t, EndpointSpec{URL: r.url + "/slow"})
	if o := c.Do(t.Context(), quick, job()); o.Class != Success {
		t.Fatalf("%+v", o)
	}
	late := job()
	late.Timeout = 200 * time.Millisecond
	late.Begin = func() error { // another call opens the second connection
		if o := c.Do(t.Context(), quick, job()); o.Class != Success {
			t.Errorf("%+v", o)
		}
		return nil
	}
	if o := c.Do(t.Context(), hangs, late); o.Reason != "timeout" {
		t.Fatalf("%+v", o)
	}
	if o := c.Do(t.Context(), quick, job()); o.Class != Success {
		t.Fatalf("%+v", o)
	}
	connections := 0
	r.each(func(*relayed) { connections++ })
	if connections != 2 {
		t.Errorf("%d connections were opened, want 2", connections)
	}
}

// TestAnAnnouncedEndOfIdleConnectionsIsHonoured: Keep-Alive: timeout=1 closes them before that second is over.
func TestAnAnnouncedEndOfIdleConnectionsIsHonoured(t *testing.T) {
	for _, body := range [][]byte{job().Body, longBody()} {
		closed := make(chan time.Duration, 2)
		url, _ := raw(t, func(_ int, c net.Conn) {
			in := bufio.NewReader(c)
			for {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nKeep-Alive: max=5, timeout=1\r\nContent-Length: 0\r\n\r\n")
				start := time.Now()
				_, _ = in.Peek(1)
				closed <- time.Since(start)
			}
		})
		c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: url})
		r := job()
		r.Body = body
		for range 2 { // the first connection is closed when the header is read, the second when it has been idle
			if o := c.Do(t.Context(), e, r); o.Class != Success {
				t.Fatalf("%+v", o)
			}
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Fatal("the connection is still open")
			}
		}
	}
}
