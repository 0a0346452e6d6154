package callback

import (
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// origin serves http, http with long requests (long), https or h2 at an address. It counts the connections.
func origin(
	t *testing.T, kind, address string, h http.HandlerFunc,
) (s *httptest.Server, o Options, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	accepted = &atomic.Int32{}
	s = httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Add(1)
		}
	}
	t.Cleanup(s.Close)
	if kind == "http" || kind == "long" {
		s.Start()
		return s, o, accepted
	}
	s.EnableHTTP2 = kind == "h2"
	s.StartTLS()
	o.RootCAs = x509.NewCertPool()
	o.RootCAs.AddCert(s.Certificate())
	return s, o, accepted
}

func jobOf(kind, topic string) *Request {
	r := job()
	r.Topic = topic
	if kind == "long" {
		r.Body = longBody()
	}
	return r
}

var kinds = []string{"http", "long", "https", "h2"}

// TestTopicsOfAnOriginShareItsConnections: the number of connections follows that of concurrent calls, not that of
// topics.
func TestTopicsOfAnOriginShareItsConnections(t *testing.T) {
	const topics, concurrent = 1000, 8
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s, o, accepted := origin(t, kind, "127.0.0.1:0", answered)
			c := caller(t, o)
			next := make(chan int)
			var callers sync.WaitGroup
			for range concurrent {
				callers.Go(func() {
					for n := range next {
						e := endpoint(t, EndpointSpec{URL: fmt.Sprintf("%s/topics/%d", s.URL, n)})
						if o := c.Do(t.Context(), e, jobOf(kind, fmt.Sprint("topic.", n))); o.Class != Success {
							t.Errorf("topic %d: %+v", n, o)
						}
					}
				})
			}
			for n := range topics {
				next <- n
			}
			close(next)
			callers.Wait()
			if n := accepted.Load(); n > 3*concurrent {
				t.Errorf("%d topics, %d calls at once: %d connections", topics, concurrent, n)
			}
		})
	}
}

// TestAHangingTopicHoldsUpNoOther of the same origin, also when it has more calls than a connection has streams, and
// when they time out.
func TestAHangingTopicHoldsUpNoOther(t *testing.T) {
	const hanging = 25
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			hung, release := make(chan struct{}, hanging), make(chan struct{})
			end := sync.OnceFunc(func() { close(release) })
			s, o, accepted := origin(t, kind, "127.0.0.1:0", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the end of the call
				switch r.URL.Path {
				case "/hangs":
					hung <- struct{}{}
					<-release
				case "/late":
					select {
					case <-r.Context().Done():
					case <-release:
					}
				}
			})
			t.Cleanup(end)
			c := caller(t, o)
			hangs := endpoint(t, EndpointSpec{URL: s.URL + "/hangs"})
			late := endpoint(t, EndpointSpec{URL: s.URL + "/late"})
			works := endpoint(t, EndpointSpec{URL: s.URL})
			var calls sync.WaitGroup
			for range hanging {
				calls.Go(func() {
					r := jobOf(kind, "hangs")
					r.Timeout = time.Minute
					if o := c.Do(t.Context(), hangs, r); o.Class != Success {
						t.Errorf("hanging: %+v", o)
					}
				})
				calls.Go(func() {
					r := jobOf(kind, "late")
					r.Timeout = 300 * time.Millisecond
					if o := c.Do(t.Context(), late, r); o.Reason != "timeout" {
						t.Errorf("late: %+v", o)
					}
				})
			}
			for range hanging {
				select {
				case <-hung:
				case <-time.After(time.Minute):
					t.Fatal("a call of the hanging topic has not arrived")
				}
			}
			before := accepted.Load()
			for range 100 {
				if o := c.Do(t.Context(), works, jobOf(kind, "works")); o.Class != Success || o.Took > 5*time.Second {
					t.Fatalf("%+v", o)
				}
				time.Sleep(5 * time.Millisecond) // some calls end by their timeout meanwhile
			}
			if n := accepted.Load() - before; n > 10 {
				t.Errorf("100 calls one after the other took %d connections", n)
			}
			end()
			calls.Wait()
		})
	}
}

// TestABusyEndpointMayMove: its name has another address now. The connections to the old one still work, and are used
// for a limited time only: for callbacks, and for webhooks and the Alertmanager.
func TestABusyEndpointMayMove(t *testing.T) {
	for _, kind := range []string{"http", "long", "https", "h2", "http webhook", "https webhook", "h2 webhook"} {
		t.Run(kind, func(t *testing.T) {
			kind, webhook := strings.CutSuffix(kind, " webhook")
			before, o, _ := origin(t, kind, "127.0.0.1:0", answered)
			_, port, _ := net.SplitHostPort(before.Listener.Addr().String())
			var moved atomic.Bool
			var arrived atomic.Int32
			origin(t, kind, "127.0.0.2:"+port, func(http.ResponseWriter, *http.Request) { arrived.Add(1) })
			o.Resolver = nameServer(t, func(int) []netip.Addr {
				if moved.Load() {
					return addrs("127.0.0.2")
				}
				return addrs("127.0.0.1")
			})
			c := caller(t, o)
			c.pools.MaxAge = 200 * time.Millisecond
			scheme := before.URL[:len(before.URL)-len("://127.0.0.1:"+port)]
			e := endpoint(t, EndpointSpec{URL: scheme + "://example.com:" + port}) // a name in httptest's certificate
			call := func() {
				if webhook {
					res, err := c.Client().Post(e.url.String(), "text/plain", strings.NewReader("down"))
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					return
				}
				if o := c.Do(t.Context(), e, jobOf(kind, "busy")); o.Class != Success {
					t.Fatalf("%+v", o)
				}
			}
			call()
			moved.Store(true)
			for deadline := time.Now().Add(time.Minute); arrived.Load() == 0; time.Sleep(time.Millisecond) {
				if call(); time.Now().After(deadline) {
					t.Fatal("no call has reached the new address")
				}
			}
		})
	}
}
