package phpdq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/phpdq"
	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// fakeTopics is a registry that has further topics after it is refreshed.
type fakeTopics struct {
	snapshot atomic.Pointer[registry.Snapshot]
	after    []*registry.Topic
}

func (f *fakeTopics) Snapshot() *registry.Snapshot { return f.snapshot.Load() }

func (f *fakeTopics) Refresh(context.Context) {
	f.snapshot.Store(&registry.Snapshot{Topics: registry.NewTopics(f.after...)})
}

// fakeJobs is a queue in memory. The tests in test/ compare its behaviour with that of the real one.
type fakeJobs struct {
	mu   sync.Mutex
	jobs map[string]*store.Job
	last store.Push
	down error
}

func (f *fakeJobs) Push(_ context.Context, p store.Push) store.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return store.Result{Err: f.down}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	due := p.DueAt
	if due.IsZero() {
		due = now.Add(p.Delay)
	}
	_, duplicate := f.jobs[p.Topic+"/"+p.ID]
	f.last = p
	f.jobs[p.Topic+"/"+p.ID] = &store.Job{
		Topic: p.Topic, ID: p.ID, Body: p.Body, DueAt: due, NextAt: due, CreatedAt: now, State: store.Delayed,
	}
	return store.Result{Duplicate: duplicate}
}

func (f *fakeJobs) Get(_ context.Context, topic, id string, _ ...store.State) (*store.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job := f.jobs[topic+"/"+id]
	if job == nil {
		return nil, store.ErrNotFound
	}
	return job, f.down
}

func (f *fakeJobs) Delete(_ context.Context, topic, id string, _ store.Match) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs[topic+"/"+id] == nil {
		return store.ErrNotFound
	}
	delete(f.jobs, topic+"/"+id)
	return nil
}

type running struct {
	*fakeJobs
	addr    string
	metrics *prometheus.Registry
	healthy error
}

// start serves the topics order_close (active, 30 minutes), old (offline) and pulled (a pull topic).
func start(t *testing.T, o listen.Options) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{fakeJobs: &fakeJobs{jobs: map[string]*store.Job{}}, addr: l.Addr().String(),
		metrics: prometheus.NewRegistry()}
	m, err := gateway.NewMetrics(r.metrics)
	if err != nil {
		t.Fatal(err)
	}
	open, old := registry.NewTopic("order_close"), registry.NewTopic("old")
	open.Delay, open.Priority, old.State = registry.Duration(30*time.Minute), "high", registry.TopicOffline
	pulled := registry.NewTopic("pulled")
	pulled.Delivery = registry.DeliveryPull
	fresh := registry.NewTopic("fresh") // just registered by another process
	topics := &fakeTopics{after: []*registry.Topic{&open, &old, &pulled, &fresh}}
	topics.snapshot.Store(&registry.Snapshot{Topics: registry.NewTopics(&open, &old, &pulled)})
	e := &gateway.Endpoint{Name: "phpdq", Options: o, Log: slog.New(slog.DiscardHandler), Metrics: m}
	s := phpdq.New(phpdq.Options{
		Endpoint: e, Jobs: r, Topics: topics,
		Healthy: func() error { return r.healthy }, Refused: func(string, string) {},
		Zone: time.FixedZone("CST", 8*3600),
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// client is a connection that sends and receives raw bytes.
type client struct {
	t *testing.T
	net.Conn
}

func (r *running) dial(t *testing.T) client {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only ends a test that would hang
	return client{t, c}
}

func frame(json string) string { return fmt.Sprintf("%04d%s", len(json), json) }

func (c client) send(bytes string) {
	c.t.Helper()
	if _, err := io.WriteString(c, bytes); err != nil {
		c.t.Fatal(err)
	}
}

// want reads one frame and compares its JSON.
func (c client) want(json string) {
	c.t.Helper()
	got := make([]byte, len(frame(json)))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != frame(json) {
		c.t.Fatalf("answered %q, %v, want %q", got[:n], err, frame(json))
	}
}

func (c client) ask(request, answer string) {
	c.t.Helper()
	c.send(frame(request))
	c.want(answer)
}

// wantEnd requires that the connection is closed without another byte.
func (c client) wantEnd(after string) {
	c.t.Helper()
	b := make([]byte, 1)
	if n, err := c.Read(b); n > 0 || err == nil || errors.Is(err, errTimeout) {
		c.t.Errorf("after %.60q: read %q, %v, want the end", after, b[:n], err)
	}
}

var errTimeout = context.DeadlineExceeded
