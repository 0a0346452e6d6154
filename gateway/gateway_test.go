package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newMetrics(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	metrics, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	return metrics, reg
}

func newEndpoint(name string, metrics *Metrics) *Endpoint {
	log := slog.New(slog.DiscardHandler)
	return &Endpoint{Name: name, Log: log, Metrics: metrics, Options: listen.Options{LameDuck: -1}}
}

func listenAnywhere(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestOneListenerThatFailsEndsAll, so that the master restarts the process; the error has its protocol.
func TestOneListenerThatFailsEndsAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("too many open files")
	stopped := make(chan struct{})
	err := Run(t.Context(), []Listener{
		{Endpoint: &Endpoint{Name: "grape"}, Serve: func(ctx context.Context, _ net.Listener) error {
			<-ctx.Done()
			close(stopped)
			return nil
		}},
		{Endpoint: &Endpoint{Name: "phpdq"}, Serve: func(context.Context, net.Listener) error { return broken }},
	})
	<-stopped
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "phpdq: ") {
		t.Errorf("it ended with %v", err)
	}
}

// TestOpenConnectionsAreCounted by protocol, over all of its listeners, until they are closed.
func TestOpenConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	metrics, reg := newMetrics(t)
	var listeners []Listener
	e := newEndpoint("lmstfy", metrics)
	for range 2 {
		listeners = append(listeners, Listener{e, listenAnywhere(t), func(ctx context.Context, l net.Listener) error {
			return e.HTTP(ctx, l, http.NotFoundHandler())
		}})
	}
	tcp := newEndpoint("beanstalk", metrics)
	listeners = append(listeners, Listener{tcp, listenAnywhere(t), func(ctx context.Context, l net.Listener) error {
		return tcp.TCP(ctx, l, func(_ context.Context, c Conn) { _, _ = io.Copy(io.Discard, c) })
	}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, listeners) }()
	counted := func(want string) {
		t.Helper()
		wait.For(t, want, func() bool { return fmt.Sprint(Status(listeners)["connections"]) == want })
	}
	counted("map[beanstalk:0 lmstfy:0]")
	var conns []net.Conn
	for _, l := range append(listeners, listeners[0]) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	counted("map[beanstalk:1 lmstfy:3]")
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || families[0].Metric[1].Gauge.GetValue() != 3 {
		t.Errorf("the metrics are %v, %v; want three connections of lmstfy", families, err)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	counted("map[beanstalk:0 lmstfy:0]")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// patientWorkers wait as the Hub does.
type patientWorkers struct{ waiting chan struct{} }

func (w patientWorkers) Take(_ context.Context, r pull.Request) ([]queue.Leased, error) {
	close(w.waiting)
	if !r.Alive() {
		return nil, errors.New("the client is gone")
	}
	<-r.Stopping
	return nil, nil
}

// TestAStopEndsWaitsBeforeRequests: waiting clients are answered that there are no jobs, instead of being disconnected.
func TestAStopEndsWaitsBeforeRequests(t *testing.T) {
	t.Parallel()
	metrics, _ := newMetrics(t)
	e := newEndpoint("delayqueue", metrics)
	l, w := listenAnywhere(t), patientWorkers{make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- e.HTTP(ctx, l, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			Patient(rw, r)
			jobs, err := Take(r.Context(), w, pull.Request{Wait: time.Hour})
			_ = WriteJSON(rw, "text/plain", http.StatusOK, fmt.Sprint(len(jobs), err))
		}))
	}()
	answered := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String() + "/pop")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answered <- string(text)
	}()
	<-w.waiting
	stop()
	if text := <-answered; text != `"0 \u003cnil\u003e"` {
		t.Errorf("answered %q", text)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestARefusalDoesNotWaitForTheBody, which a client that asks for 100 Continue sends only if it is not refused.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	metrics, _ := newMetrics(t)
	e, l := newEndpoint("lmstfy", metrics), listenAnywhere(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- e.HTTP(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		}))
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(readTimeout / 2))
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "HTTP/1.1 401 Unauthorized\r\n" {
		t.Errorf("answered %q, %v", line, err)
	}
	_ = c.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestResultsTellWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	away := &queue.UnavailableError{Reason: "full", Err: errors.New("OOM")}
	for result, err := range map[string]error{
		Done: nil, Refused: errors.New("no such topic"), Unavailable: fmt.Errorf("push: %w", away),
	} {
		if got := ResultOf(err); got != result {
			t.Errorf("%v is %s, want %s", err, got, result)
		}
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	if _, err := NewMetrics(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(reg); err == nil {
		t.Error("a second set of the same names is not refused")
	}
}
