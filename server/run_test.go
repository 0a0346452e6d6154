package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/wait"
)

// running is a server in Run.
type running struct {
	addr  string
	jobs  *fakeJobs
	token string
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, l net.Listener, adjust ...func(*server.Options)) *running {
	t.Helper()
	reg := newFakeRegistry()
	r := &running{addr: l.Addr().String(), jobs: newFakeJobs(),
		token: reg.grant("all", "*", registry.RightPush, registry.RightRead), ended: make(chan error, 1)}
	opts := server.Options{Jobs: r.jobs, Waits: r.jobs, Workers: &fakeWorkers{}, Registry: reg, LameDuck: 200 * time.Millisecond}
	for _, f := range adjust {
		f(&opts)
	}
	s, err := server.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.ended <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if r.ended != nil {
			<-r.ended
		}
	})
	return r
}

// end stops the server and waits.
func (r *running) end(t *testing.T) error {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		r.ended = nil
		return err
	case <-time.After(wait.Limit):
		t.Fatal("Run does not end")
		return nil
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(wait.Limit)); err != nil {
		t.Fatal(err)
	}
	return c
}

func newClient(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: wait.Limit}
}

func (r *running) push(c *http.Client) (*http.Response, error) {
	// not replayable
	req, err := http.NewRequest(http.MethodPost, "http://"+r.addr+orders, io.NopCloser(strings.NewReader(`{"body":1}`)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}

// lameDuck is long, because on a busy machine clients pause, too.
const lameDuck = 5 * time.Second

// TestGracefulStop replaces a server by another one on the same socket, as the master does, while clients push over
// kept connections: none of their requests may fail.
func TestGracefulStop(t *testing.T) {
	l := listen(t)
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	same, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	old := start(t, l, func(o *server.Options) { o.LameDuck = lameDuck })
	var (
		stop    = make(chan struct{})
		clients sync.WaitGroup
		pushed  atomic.Int64
		closed  atomic.Int64
	)
	client := newClient(t)
	for range 16 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := old.push(client)
				if err != nil || resp.StatusCode != http.StatusCreated {
					t.Errorf("a push failed: %v %v", resp, err)
					return
				}
				if resp.Close {
					closed.Add(1)
				}
				pushed.Add(1)
			}
		})
	}
	wait.For(t, "200 pushes", func() bool { return pushed.Load() > 200 })
	next := start(t, same)
	if err := old.end(t); err != nil {
		t.Errorf("the old server ended with %v", err)
	}
	before := pushed.Load()
	wait.For(t, "200 more pushes", func() bool { return pushed.Load() > before+200 })
	close(stop)
	clients.Wait()
	if len(next.jobs.changes()) == 0 || closed.Load() == 0 {
		t.Errorf("the new server got %d pushes, the old one closed %d connections", len(next.jobs.changes()),
			closed.Load())
	}
	if total := len(next.jobs.changes()) + len(old.jobs.changes()); int64(total) != pushed.Load() {
		t.Errorf("%d pushes were answered, %d stored", pushed.Load(), total)
	}
}

// TestReplacedServerWaitsForKeptConnections: none is closed before it has sent one more request, whose answer announces
// the close.
func TestReplacedServerWaitsForKeptConnections(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.LameDuck, o.Replaced = -1, func() bool { return true } })
	client := newClient(t)
	if resp, err := r.push(client); err != nil || resp.Close {
		t.Fatalf("the first push: %v %v", resp, err)
	}
	r.stop()
	wait.For(t, "the server to stop listening", func() bool {
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	resp, err := r.push(client)
	if err != nil || resp.StatusCode != http.StatusCreated || !resp.Close {
		t.Fatalf("a push over the kept connection: %v %v", resp, err)
	}
	if err := r.end(t); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// TestStopWaitsForFirstRequests: an accepted connection is not closed before its first request has arrived.
func TestStopWaitsForFirstRequests(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.LameDuck = -1 })
	c := dial(t, r.addr)
	wait.For(t, "a later connection to be accepted, so that this one was", func() bool {
		resp, err := newClient(t).Get("http://" + r.addr + "/healthz")
		return err == nil && resp.Body.Close() == nil
	})
	r.stop()
	wait.For(t, "the server to stop listening", func() bool {
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("answered %d, Connection: close %t", resp.StatusCode, resp.Close)
	}
	if err := r.end(t); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// TestStopWaitsForRequests: requests in progress are answered; /readyz reports the shutdown.
func TestStopWaitsForRequests(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.LameDuck = lameDuck })
	r.jobs.hold, r.jobs.holding = make(chan struct{}), make(chan struct{}, 1)
	client := newClient(t)
	status := make(chan int, 1)
	go func() {
		resp, err := r.push(client)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		status <- resp.StatusCode
	}()
	<-r.jobs.holding
	r.stop()
	wait.For(t, "/readyz to change", func() bool {
		resp, err := client.Get("http://" + r.addr + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Close
	})
	close(r.jobs.hold)
	if got := <-status; got != 201 {
		t.Errorf("the request in progress got %d", got)
	}
	if err := r.end(t); err != nil {
		t.Error(err)
	}
}

// TestAStopEndsWaits: a waiting worker is answered at once that there are no jobs.
func TestAStopEndsWaits(t *testing.T) {
	w := &fakeWorkers{waits: make(chan struct{})}
	var token string
	r := start(t, listen(t), func(o *server.Options) {
		topic := registry.NewTopic("p")
		topic.Delivery = registry.DeliveryPull
		reg := o.Registry.(*fakeRegistry)
		reg.edit(func(s *registry.Snapshot) { s.Topics = s.Topics.With("p", &topic) })
		o.Workers, token = w, reg.grant("worker", "*", registry.RightConsume)
	})
	c := dial(t, r.addr)
	const body = `{"wait":"10m"}`
	_, err := fmt.Fprintf(c, "POST /v1/topics/p/reserve HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", token, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	<-w.waits
	r.stop()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(got) != `{"jobs":[]}` {
		t.Errorf("answered %d %s, %v", resp.StatusCode, got, err)
	}
	if err := r.end(t); err != nil || len(w.ended) > 0 {
		t.Errorf("the stop: %v, released %+v", err, w.ended)
	}
}

// leave sends a request and closes the connection once the jobs have it.
func (r *running) leave(t *testing.T, method, path, body string) {
	t.Helper()
	c := dial(t, r.addr)
	_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, r.token, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	<-r.jobs.holding
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAPushWhoseClientLeavesIsCanceled: its result is not waited for.
func TestAPushWhoseClientLeavesIsCanceled(t *testing.T) {
	r := start(t, listen(t))
	r.jobs.hold, r.jobs.holding = make(chan struct{}), make(chan struct{}, 1)
	defer close(r.jobs.hold)
	r.leave(t, "POST", orders, `{"body":1}`)
	select {
	case <-r.jobs.holding:
	case <-time.After(wait.Limit):
		t.Error("the push is still waited for")
	}
}

// TestAnEditWhoseClientLeavesIsCompleted: Redis may already have made the change, so it is completed, and the journal
// gets its line.
func TestAnEditWhoseClientLeavesIsCompleted(t *testing.T) {
	r := start(t, listen(t))
	resp, err := r.push(newClient(t))
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp, err)
	}
	path := resp.Header.Get("Location")
	r.jobs.hold, r.jobs.holding = make(chan struct{}), make(chan struct{}, 1)
	r.leave(t, "DELETE", path, "")
	// The server has noticed the end of the connection by then.
	time.AfterFunc(100*time.Millisecond, func() { close(r.jobs.hold) })
	wait.For(t, "the deletion to be made", func() bool {
		return slices.ContainsFunc(r.jobs.changes(), func(did string) bool { return strings.HasPrefix(did, "delete ") })
	})
}

// TestStopIsBounded: a request that does not end is cut off after ShutdownTimeout, and its handler's context is
// canceled.
func TestStopIsBounded(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.LameDuck, o.ShutdownTimeout = -1, 100*time.Millisecond })
	r.jobs.hold, r.jobs.holding = make(chan struct{}), make(chan struct{}, 1)
	defer close(r.jobs.hold)
	client := newClient(t)
	failed := make(chan error, 1)
	go func() {
		_, err := r.push(client)
		failed <- err
	}()
	<-r.jobs.holding
	if err := r.end(t); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run ended with %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
	select {
	case <-r.jobs.holding:
	case <-time.After(wait.Limit):
		t.Error("its handler is still running")
	}
}

func TestTLS(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // only for its certificate
	cert, client := web.TLS.Certificates[0], web.Client()
	defer web.Close()
	r := start(t, listen(t), func(o *server.Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	resp, err := client.Get("https://" + r.addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("answered %d", resp.StatusCode)
	}
	client.CloseIdleConnections()
}

// TestListenerBroken: Run returns an error when it cannot serve.
func TestListenerBroken(t *testing.T) {
	l := listen(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, l)
	select {
	case err := <-r.ended:
		r.ended = nil
		if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(wait.Limit):
		t.Fatal("Run does not end")
	}
}
