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
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
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

// TestOpenConnectionsAreCounted by protocol, over all of its listeners, until they are closed.
func TestOpenConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	metrics, reg := newMetrics(t)
	var listeners []Listener
	e := newEndpoint("lmstfy", metrics)
	for range 2 {
		serve := func(ctx context.Context, l net.Listener) error { return e.HTTP(ctx, l, http.NotFoundHandler()) }
		listeners = append(listeners, Listener{Endpoint: e, Listener: listenAnywhere(t), Prepare: Serve(serve).Prepare})
	}
	tcp := newEndpoint("beanstalk", metrics)
	serve := func(ctx context.Context, l net.Listener) error {
		return tcp.TCP(ctx, l, func(_ context.Context, c Conn) { _, _ = io.Copy(io.Discard, c) })
	}
	listeners = append(listeners, Listener{Endpoint: tcp, Listener: listenAnywhere(t), Prepare: Serve(serve).Prepare})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		serve, err := l.Prepare(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- serve(ctx, l.Listener) }()
	}
	counted := func(want string) {
		t.Helper()
		wait.For(t, want, func() bool { return fmt.Sprint(Connections(listeners)) == want })
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
	for range listeners {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// patientWorkers wait as the Hub does.
type patientWorkers struct{ waiting chan struct{} }

func (w patientWorkers) Take(_ context.Context, r pull.Request) ([]store.Job, error) {
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

// TestNoOtherSiteUsesAGateway through a user's browser.
func TestNoOtherSiteUsesAGateway(t *testing.T) {
	t.Parallel()
	metrics, _ := newMetrics(t)
	e, l := newEndpoint("grape", metrics), listenAnywhere(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.HTTP(ctx, l, http.NotFoundHandler()) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	own := "http://" + l.Addr().String()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, x := range []struct {
			name, value string
			want        int
		}{
			{"", "", 404}, {"Origin", own, 404}, {"Sec-Fetch-Site", "same-origin", 404}, {"Sec-Fetch-Site", "none", 404},
			{"Origin", "https://evil.example", 403}, {"Origin", "null", 403}, {"Sec-Fetch-Site", "cross-site", 403},
			{"Sec-Fetch-Site", "same-site", 403},
		} {
			r, err := http.NewRequestWithContext(ctx, method, own, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(x.name, x.value)
			if x.name == "" {
				r.Header = http.Header{}
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != x.want {
				t.Errorf("%s with %s %s: %d, want %d", method, x.name, x.value, resp.StatusCode, x.want)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
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
	away := &store.UnavailableError{Reason: "full", Err: errors.New("OOM")}
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
