package dispatcher

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/leaks"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
	"github.com/wakecall/wakecall/timer"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var eventually = wait.For

// installation is a queue on a private Redis, a timer, a dispatcher and an endpoint.
type installation struct {
	t     *testing.T
	q     *queue.Queue
	redis *redistest.Server
	lossy bool // a shard may be down at the end
	snap  *registry.Snapshot

	mu    sync.Mutex
	calls map[string]int // by id
	lines []journal.AttemptLine
	asked []journal.RequestLine
	hooks map[string]http.HandlerFunc // by id
	url   string
	d     *Dispatcher
}

func (i *installation) Attempts(lines []journal.AttemptLine) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lines = append(i.lines, lines...)
	return nil
}

func (i *installation) Requests(lines []journal.RequestLine) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked = append(i.asked, lines...)
	return nil
}

func (i *installation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Wakecall-Id")
	i.mu.Lock()
	i.calls[id]++
	hook := i.hooks[id]
	i.mu.Unlock()
	if hook != nil {
		hook(w, r)
	}
}

func (i *installation) hook(id string, h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hooks[id] = h
}

func (i *installation) called(id string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[id]
}

func start(t *testing.T, more ...func(*Options)) *installation {
	return startWith(t, wait.Limit, more...)
}

// startWith starts an installation with a timeout for Redis commands.
func startWith(t *testing.T, timeout time.Duration, more ...func(*Options)) *installation {
	r := redistest.Start(t, redistest.Options{Quick: true})
	i := startOn(t, []string{r.URL()}, timeout, more...)
	i.redis = r
	return i
}

// startOn starts an installation on servers that are running: the shards a and b; b takes the jobs of slow.
func startOn(t *testing.T, urls []string, timeout time.Duration, more ...func(*Options)) *installation {
	i := &installation{t: t, calls: map[string]int{}, hooks: map[string]http.HandlerFunc{}, snap: &registry.Snapshot{}}
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.url = srv.URL
	pinned := func(topic string) string { return map[string]string{"t": "a", "slow": "b"}[topic] }
	i.q = queue.Open(store.Options{Timeout: timeout, Pinned: pinned})
	t.Cleanup(func() { _ = i.q.Close() })
	var shards []store.ShardConfig
	for n, url := range urls {
		shards = append(shards, store.ShardConfig{Name: string(rune('a' + n)), URL: url, State: "active"})
	}
	if err := i.q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	for _, s := range i.q.Shards.All() {
		eventually(t, "the shard is adopted", func() bool { return queuetest.Adopt(t.Context(), s) == nil })
	}
	for _, name := range []string{"t", "slow"} {
		i.topic(name, nil)
	}
	eventually(t, "Redis answers", func() bool { return i.q.SetTopics(t.Context(), slices.Values(i.confs())) == nil })
	i.run(more...)
	return i
}

func (i *installation) topic(name string, change func(*registry.Topic)) {
	x := registry.NewTopic(name)
	x.CallbackURL = i.url
	x.Retry = []registry.Duration{registry.Duration(20 * time.Millisecond)}
	if change != nil {
		change(&x)
	}
	i.snap.Topics = i.snap.Topics.With(name, &x)
}

func (i *installation) confs() (list []store.TopicConf) {
	for _, x := range i.snap.Topics.All() {
		list = append(list, store.TopicConf{Name: x.Name, TTR: x.TTR.Std(), MaxAttempts: x.MaxAttempts})
	}
	return list
}

func (i *installation) run(more ...func(*Options)) {
	c, err := callback.New(callback.Options{Version: "test"})
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(c.Close)
	o := Options{
		Buckets: func() (list []Bucket) {
			for _, b := range i.q.Shards.Buckets() {
				list = append(list, observe.Bucket{Bucket: b})
			}
			return list
		},
		Topics: func() *registry.Snapshot { return i.snap },
		Caller: c, Journal: i, Concurrency: 32, Pattern: "0120010210", ShutdownTimeout: wait.Limit,
	}
	for _, m := range more {
		m(&o)
	}
	d := New(o)
	i.d = d
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Run(ctx); err != nil && !(i.lossy && errors.Is(err, errUnsettled)) {
			i.t.Error(err)
		}
	})
	wg.Go(func() {
		_ = timer.New(timer.Options{Buckets: func() (list []timer.Bucket) {
			for _, b := range i.q.Shards.Buckets() {
				list = append(list, observe.Bucket{Bucket: b})
			}
			return list
		}}).Run(ctx)
	})
	i.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (i *installation) push(topic, id string, delay time.Duration) {
	i.t.Helper()
	if r := i.q.Push(i.t.Context(), store.Push{Topic: topic, ID: id, Body: []byte(`{}`), Delay: delay}); r.Err != nil {
		i.t.Fatal(r.Err)
	}
}

func (i *installation) gone(topic, id string) bool {
	_, err := i.q.Get(i.t.Context(), topic, id)
	return errors.Is(err, store.ErrNotFound)
}

// lateness pushes a job, waits for its delivery, and returns how long after its due time it was called.
func (i *installation) lateness(id string) time.Duration {
	i.t.Helper()
	var late atomic.Int64
	due := time.Now().Add(200 * time.Millisecond)
	i.hook(id, func(http.ResponseWriter, *http.Request) { late.Store(int64(time.Since(due))) })
	i.push("t", id, 200*time.Millisecond)
	eventually(i.t, "the job is delivered", func() bool { return i.gone("t", id) })
	if late.Load() < 0 {
		i.t.Fatalf("called %v before its due time", -time.Duration(late.Load()))
	}
	return time.Duration(late.Load())
}
