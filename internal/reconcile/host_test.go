package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// startRedis starts a redis-server without persistence on its own socket.
func startRedis(t *testing.T) (url string, client *redis.Client) {
	t.Helper()
	r := redistest.Start(t, redistest.Options{Quick: true})
	return r.URL(), r.Client()
}

var eventually = wait.For

// host is a journal and the queue that writes to it.
type host struct {
	dir     string
	full    atomic.Bool  // its disk
	mute    atomic.Bool  // its lines are delayed
	off     atomic.Int64 // offset of its clock
	journal *journal.Journal
	queue   *queue.Queue
}

func newHost(t *testing.T, url string) *host {
	t.Helper()
	return newHostOf(t, url, wait.Limit)
}

// newHostOf is newHost with the timeout of a command.
func newHostOf(t *testing.T, url string, timeout time.Duration) *host {
	t.Helper()
	h := &host{dir: t.TempDir()}
	var err error
	if h.journal, err = journal.Open(journal.Options{Dir: h.dir, Now: h.now}); err != nil {
		t.Fatal(err)
	}
	h.queue = queue.Open(store.Options{
		Timeout: timeout,
		Accepted: func(pushes []store.Push, results []store.Result) error {
			if h.full.Load() {
				return errors.New("the disk is full")
			}
			if h.mute.Load() {
				return nil
			}
			return Recorder{Journal: h.journal}.Accepted(pushes, results)
		},
		Changed:   Recorder{Journal: h.journal}.Changed,
		Grouped:   Recorder{Journal: h.journal}.Grouped,
		Scheduled: Recorder{Journal: h.journal}.Scheduled,
		Ended:     Recorder{Journal: h.journal}.Ended,
	})
	t.Cleanup(func() { _, _ = h.queue.Close(), h.journal.Close() })
	if err := h.queue.Shards.Set([]store.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) now() time.Time { return time.Now().Add(time.Duration(h.off.Load())) }

// adopt opens the shards as if nothing had been lost.
func (h *host) adopt(t fataler) {
	for _, s := range h.queue.Shards.All() {
		if err := adopt(context.Background(), s); err != nil {
			t.Fatalf("adopt %s: %v", s.Name(), err)
		}
	}
}

// adopt ends a comparison without replaying a line, and waits until the queue uses the shard.
func adopt(ctx context.Context, s *store.Shard) error {
	for _, b := range s.Buckets() {
		c, err := Attend(ctx, b, Attendance{Host: "adopted"})
		if err != nil {
			return err
		}
		if _, err := OpenBucket(ctx, b, ComparedBy{Host: "adopted", Name: c.Name, Highest: c.After}); err != nil {
			return err
		}
		if _, err := OpenBucket(ctx, b, ComparedBy{Host: "adopted", Mode: ComparedForget}); err != nil {
			return err
		}
	}
	return queuetest.Used(ctx, s)
}

func (h *host) recover(ctx context.Context, dry bool) (Report, error) {
	return Recover(ctx, Options{Shards: h.queue.Shards.All(), Dirs: []string{h.dir}, DryRun: dry})
}

func (h *host) change(ctx context.Context, topic, id string, c store.Change) error {
	_, err := h.queue.Change(ctx, topic, id, c)
	return err
}

// work reserves one job and ends its attempt as a dispatcher does: a delivery is in the journal before it is settled, a
// death after.
func (h *host) work(ctx context.Context, token string, v store.Verb) (topic, id string, err error) {
	l, err := h.reserve(ctx, token)
	if l == nil || err != nil {
		return "", "", err
	}
	if v != store.Bury {
		err = h.attempted(l, v)
	}
	if err == nil {
		_, err = h.settle(ctx, l, v)
	}
	if err == nil && v == store.Bury {
		err = h.attempted(l, v)
	}
	return l.Topic, l.ID, err
}

// reserve returns nil when no job is ready.
func (h *host) reserve(ctx context.Context, token string) (*store.Job, error) {
	reserve := store.Reserve{Worker: "w", Token: token, Max: 1, Pattern: "0102010201"}
	got, err := h.queue.Shards.All()[0].Buckets()[0].Reserve(ctx, reserve)
	if err != nil || len(got.Jobs) == 0 {
		return nil, err
	}
	return got.Jobs[0], nil
}

// attempted writes the line of an attempt, as a dispatcher does.
func (h *host) attempted(l *store.Job, v store.Verb) error {
	line := journal.AttemptLine{
		Topic: l.Topic, ID: l.ID, CreatedAt: l.CreatedAt, N: l.Attempts + 1, StartedAt: time.Now(), Shard: l.Shard,
		Revision: l.Revision,
	}
	switch v {
	case store.Done:
		line.Outcome = journal.Done
	case store.Bury:
		line.Outcome = journal.Dead
	default:
		line.Outcome = journal.Retry
	}
	return h.journal.Attempts([]journal.AttemptLine{line})
}

func (h *host) settle(ctx context.Context, l *store.Job, v store.Verb) (held bool, err error) {
	attempt := &store.Attempt{StartedAt: time.Now().UnixMilli()}
	end := store.End{Lease: l.Lease, Verb: v, Delay: time.Hour, Attempt: attempt}
	ended, err := h.queue.Shards.All()[0].Buckets()[0].End(ctx, []store.End{end})
	if err != nil || ended[0].Err != nil {
		return false, err
	}
	if v == store.Bury {
		l.Revision = ended[0].Revision
	}
	return true, nil
}

// memory is the data of a Redis at a point in time.
type memory map[string]string

func remember(t fataler, c *redis.Client) memory {
	m := memory{}
	keys, err := c.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatalf("keys: %v", err)
	}
	for _, k := range keys {
		m[k] = c.Dump(context.Background(), k).Val()
	}
	return m
}

// forget restores that data.
func (m memory) forget(t fataler, c *redis.Client) {
	if err := c.FlushAll(context.Background()).Err(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	for k, v := range m {
		if err := c.Restore(context.Background(), k, 0, v).Err(); err != nil {
			t.Fatalf("restore %s: %v", k, err)
		}
	}
}

type fataler interface{ Fatalf(string, ...any) }

func (h *host) push(t *testing.T, id, body string, delay time.Duration) store.Job {
	t.Helper()
	r := h.queue.Push(t.Context(), store.Push{Topic: "t", ID: id, Body: []byte(body), Delay: delay})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Job
}

// keep runs a host's reconciler, as its redis-checker does, until stop is called.
func (h *host) keep(t *testing.T, patience time.Duration) (k *Reconciler, stop func()) {
	t.Helper()
	k, err := NewReconciler(ReconcilerOptions{
		Dir: h.dir, Queue: h.queue, Every: 10 * time.Millisecond, Quiet: 50 * time.Millisecond,
		LateAfter: 200 * time.Millisecond,
		Patience:  patience, Logger: slog.New(slog.DiscardHandler),
		Buckets: h.queue.Shards.Buckets,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return k, stop
}

// ready waits until both hosts get answers.
func ready(t *testing.T, hosts ...*host) {
	t.Helper()
	eventually(t, "the shard to answer", func() bool {
		for _, h := range hosts {
			if h.queue.Ready() != nil {
				return false
			}
		}
		return true
	})
}

// twoHosts attend an empty shard and know of each other: it is open.
func twoHosts(t *testing.T, url string) (a, b *host, inA, inB *heartbeat) {
	t.Helper()
	a, b = newHost(t, url), newHost(t, url)
	inA, inB = a.heartbeatOf(t), b.heartbeatOf(t)
	attendAll(t, inA, inB)
	attendAll(t, inA)
	ready(t, a, b)
	return a, b, inA, inB
}

// oneHost is a host that attends an open shard.
func oneHost(t *testing.T) (h *host, in *heartbeat, client *redis.Client) {
	t.Helper()
	url, client := startRedis(t)
	h = newHost(t, url)
	in = h.heartbeatOf(t)
	attendAll(t, in)
	ready(t, h)
	return h, in, client
}

// fill pushes n jobs.
func (h *host) fill(t *testing.T, n int) {
	t.Helper()
	pushes := make([]store.Push, 0, 500)
	for i := range n {
		pushes = append(pushes,
			store.Push{Topic: "t", ID: fmt.Sprint(i), Body: []byte(`"of the job"`), Delay: time.Hour})
		if len(pushes) < cap(pushes) {
			continue
		}
		for _, r := range h.queue.PushBatch(t.Context(), pushes) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		pushes = pushes[:0]
	}
}

func onlyFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %q, %v", pattern, names, err)
	}
	return names[0]
}
