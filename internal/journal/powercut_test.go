package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/wait"
)

// machine is a host whose page cache can be dropped: it records how much of each file is on disk.
type machine struct {
	t       *testing.T
	dir     string
	journal *journal.Journal
	queue   *queue.Queue
	stop    func()

	mu      sync.Mutex
	off     bool
	onDisk  map[string]int64  // by file
	answers map[string]string // state of each job according to the last answered request: its body, or "" for deleted
}

func startMachine(t *testing.T, dir string, r *harness.Redis) *machine {
	t.Helper()
	m := &machine{t: t, dir: dir, onDisk: map[string]int64{}, answers: map[string]string{}}
	var err error
	if m.journal, err = journal.Open(journal.Options{Dir: dir, Sync: true}); err != nil {
		t.Fatal(err)
	}
	m.sync(t)
	recorder := reconcile.Recorder{Journal: m.journal}
	m.queue = queue.Open(store.Options{
		Accepted: recorder.Accepted, Changed: recorder.Changed, Timeout: wait.Limit,
	})
	shards := []store.ShardConfig{{Name: "a", URL: r.URL(), State: "active"}}
	if err := m.queue.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	k, err := reconcile.NewReconciler(reconcile.ReconcilerOptions{
		Dir: dir, Queue: m.queue, Every: 5 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), Buckets: m.queue.Shards.Buckets,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, m.queue.Close(), m.journal.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(m.stop)
	wait.For(t, "the shard to answer", func() bool { return m.queue.Ready() == nil })
	return m
}

// sync makes the machine record what is synced from now on, until the next one starts.
func (m *machine) sync(t *testing.T) {
	was := disk.Sync
	t.Cleanup(func() { disk.Sync = was })
	disk.Sync = func(f *os.File) error {
		info, err := f.Stat()
		if err = errors.Join(err, f.Sync()); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		name := filepath.Base(f.Name())
		m.onDisk[name] = max(m.onDisk[name], info.Size())
		return nil
	}
}

// load changes its own jobs until the machine is off.
func (m *machine) load(n int) {
	r := rand.New(rand.NewPCG(uint64(n), 0))
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", n, r.IntN(20))
		m.mu.Lock()
		_, known := m.answers[id]
		delete(m.answers, id) // the result is unknown until it is answered
		off := m.off
		m.mu.Unlock()
		if off {
			return
		}
		body := fmt.Appendf(nil, `"%d"`, i)
		var err error
		if known && r.IntN(4) == 0 {
			body = nil
			if err = m.queue.Delete(context.Background(), "t", id, nil); errors.Is(err, store.ErrNotFound) {
				err = nil
			}
		} else {
			p := store.Push{Topic: "t", ID: id, Body: body, Delay: time.Hour, OnDuplicate: store.Replace}
			err = m.queue.Push(context.Background(), p).Err
		}
		m.mu.Lock()
		if err == nil && !m.off {
			m.answers[id] = string(body)
		}
		m.mu.Unlock()
	}
}

// cut simulates a power cut: the journal has what was synced, in another directory; Redis has its data of an earlier
// time.
func (m *machine) cut(forget func()) (dir string, answers map[string]string) {
	m.t.Helper()
	m.mu.Lock()
	m.off = true
	onDisk, answers := maps.Clone(m.onDisk), maps.Clone(m.answers)
	m.mu.Unlock()
	forget()
	m.stop()
	dir = m.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(m.dir)); err != nil {
		m.t.Fatal(err)
	}
	for _, name := range []string{"request", "notify"} {
		files, _ := filepath.Glob(filepath.Join(dir, name+"-*.jsonl"))
		for _, f := range files {
			if err := os.Truncate(f, onDisk[filepath.Base(f)]); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	return dir, answers
}

// TestAPowerCutLosesNothingThatWasAnswered, with Options.Sync, whatever Redis had on disk: twenty times, at any moment,
// without a stop in between, so that each cut affects the state that the last one left.
func TestAPowerCutLosesNothingThatWasAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("starts redis-server twenty times")
	}
	r := harness.StartRedis(t, harness.RedisOptions{})
	dir := t.TempDir()
	want := map[string]string{}
	for n := range 20 {
		m := startMachine(t, dir, r)
		maps.Copy(m.answers, want)
		for _, f := range []string{"request", "notify"} { // was on disk
			files, _ := filepath.Glob(filepath.Join(dir, f+"-*.jsonl"))
			for _, file := range files {
				if info, err := os.Stat(file); err == nil {
					m.onDisk[filepath.Base(file)] = info.Size()
				}
			}
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { m.load(100*n + i) })
		}
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		forget := r.Remember()
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		dir, want = m.cut(forget)
		wg.Wait()
		r.Restart()
		after := startMachine(t, dir, r)
		for _, id := range slices.Sorted(maps.Keys(want)) {
			job, err := after.queue.Get(t.Context(), "t", id)
			switch {
			case want[id] == "" && !errors.Is(err, store.ErrNotFound):
				t.Errorf("cut %d: %s was deleted, but exists: %v", n, id, err)
			case want[id] != "" && (err != nil || string(job.Body) != want[id]):
				t.Errorf("cut %d: %s is %+v, %v; want the body %s", n, id, job, err, want[id])
			}
		}
		after.stop()
		if t.Failed() {
			return
		}
	}
}
