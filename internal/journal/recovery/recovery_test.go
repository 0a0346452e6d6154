package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/test/race"
	"github.com/wakecall/wakecall/test/wait"
)

// startRedis starts a redis-server without persistence on its own socket.
func startRedis(t *testing.T) (url string, client *redis.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wkr")
	if err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", sock, "--dir", dir, "--save", "")
	if err := cmd.Start(); err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	client = redis.NewClient(&redis.Options{Network: "unix", Addr: sock})
	t.Cleanup(func() { _ = client.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = os.RemoveAll(dir) })
	eventually(t, "redis-server to answer", func() bool { return client.Ping(t.Context()).Err() == nil })
	return "unix://" + sock, client
}

var eventually = wait.For

// host is a journal and the queue that writes to it.
type host struct {
	dir     string
	away    time.Duration // KeeperOptions.Away
	full    atomic.Bool   // its disk
	mute    atomic.Bool   // its lines are delayed
	off     atomic.Int64  // offset of its clock
	journal *journal.Journal
	queue   *queue.Queue
}

func newHost(t *testing.T, url string) *host {
	t.Helper()
	h := &host{dir: t.TempDir()}
	var err error
	if h.journal, err = journal.Open(journal.Options{Dir: h.dir, Now: h.now}); err != nil {
		t.Fatal(err)
	}
	h.queue = queue.Open(queue.Options{
		Timeout: wait.Limit,
		Accepted: func(pushes []queue.Push, results []queue.Result) error {
			if h.full.Load() {
				return errors.New("the disk is full")
			}
			if h.mute.Load() {
				return nil
			}
			return Recorder{Journal: h.journal}.Accepted(pushes, results)
		},
		Changed: Recorder{Journal: h.journal}.Changed,
		Ended:   Recorder{Journal: h.journal}.Ended,
	})
	t.Cleanup(func() { _, _ = h.queue.Close(), h.journal.Close() })
	if err := h.queue.SetShards(t.Context(), []queue.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) now() time.Time { return time.Now().Add(time.Duration(h.off.Load())) }

// adopt opens the shards as if nothing had been lost.
func (h *host) adopt(t fataler) {
	for _, s := range h.queue.Shards() {
		if err := queuetest.Adopt(context.Background(), s); err != nil {
			t.Fatalf("adopt %s: %v", s.Name(), err)
		}
	}
}

func (h *host) recover(ctx context.Context, dry bool) (Report, error) {
	return Recover(ctx, Options{Shards: h.queue.Shards(), Dirs: []string{h.dir}, DryRun: dry})
}

func (h *host) change(ctx context.Context, topic, id string, c queue.Change) error {
	_, err := h.queue.Change(ctx, topic, id, c)
	return err
}

// work reserves one job and ends its attempt as a dispatcher does: a delivery is in the journal before it is settled, a
// death after.
func (h *host) work(ctx context.Context, token string, v queue.Verdict) (topic, id string, err error) {
	l, err := h.reserve(ctx, token)
	if l == nil || err != nil {
		return "", "", err
	}
	if v != queue.Bury {
		err = h.attempted(l, v)
	}
	if err == nil {
		_, err = h.settle(ctx, l, v)
	}
	if err == nil && v == queue.Bury {
		err = h.attempted(l, v)
	}
	return l.Topic, l.ID, err
}

// reserve returns nil when no job is ready.
func (h *host) reserve(ctx context.Context, token string) (*queue.Lease, error) {
	reserve := queue.Reserve{Worker: "w", Token: token, Max: 1, Pattern: "0102010201"}
	got, err := h.queue.Shards()[0].Reserve(ctx, 0, reserve)
	if err != nil || len(got.Jobs) == 0 {
		return nil, err
	}
	return got.Jobs[0], nil
}

// attempted writes the line of an attempt, as a dispatcher does.
func (h *host) attempted(l *queue.Lease, v queue.Verdict) error {
	line := journal.AttemptLine{
		Topic: l.Topic, ID: l.ID, CreatedAt: l.CreatedAt, N: l.Attempts + 1, StartedAt: time.Now(), Shard: l.Shard,
		Revision: l.Reservation,
	}
	switch v {
	case queue.Done:
		line.Outcome = journal.Done
	case queue.Bury:
		line.Outcome, line.Revision = journal.Dead, l.Revision
	default:
		line.Outcome = journal.Retry
	}
	return h.journal.Attempts([]journal.AttemptLine{line})
}

func (h *host) settle(ctx context.Context, l *queue.Lease, v queue.Verdict) (held bool, err error) {
	attempt := &queue.Attempt{StartedAt: time.Now().UnixMilli()}
	st := queue.Settlement{Lease: l, Verdict: v, Delay: time.Hour, Attempt: attempt}
	was, err := h.queue.Shards()[0].Settle(ctx, 0, []queue.Settlement{st})
	return err == nil && was[0], err
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

// TestADryRunChangesNothingAndCounts; it does not count jobs of unregistered topics.
func TestADryRunChangesNothingAndCounts(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	for _, id := range []string{"there", "missing", "delivered", "deleted", "dead"} {
		delay := time.Hour
		if slices.Contains([]string{"delivered", "dead"}, id) {
			delay = 0
		}
		h.push(t, id, `1`, delay)
		switch id {
		case "delivered", "dead":
			v := map[string]queue.Verdict{"delivered": queue.Done, "dead": queue.Bury}[id]
			if _, got, err := h.work(t.Context(), id, v); err != nil || got != id {
				t.Fatalf("%s: %v", got, err)
			}
		case "deleted":
			if err := h.queue.Delete(t.Context(), "t", id); err != nil {
				t.Fatal(err)
			}
		}
	}
	client.FlushAll(t.Context())
	client.MSet(t.Context(), "wk:{0}:rev", 5_000_000, "wk:{0}:format", "1") // as after a comparison
	h.adopt(t)
	h.push(t, "there", `1`, time.Hour)
	before := remember(t, client)
	report, err := h.recover(t.Context(), true)
	want := Report{Jobs: 5, There: 1, Missing: 1, Delivered: 1, Deleted: 1, Dead: 1}
	if err != nil || report != want {
		t.Errorf("report %+v, %v\nwant %+v", report, err, want)
	}
	if after := remember(t, client); len(after) != len(before) {
		t.Errorf("%d keys, %d before", len(after), len(before))
	}
	o := Options{Shards: h.queue.Shards(), Dirs: []string{h.dir}, Topic: func(string) bool { return false }}
	if report, err = Recover(t.Context(), o); err != nil || report.Pushed != 0 || report.Unknown == 0 {
		t.Errorf("an unregistered topic: %+v, %v", report, err)
	}
	if report, err = h.recover(t.Context(), false); err != nil || report.Pushed != 1 || report.Restored != 1 {
		t.Errorf("report %+v, %v", report, err)
	}
}

func (h *host) push(t *testing.T, id, body string, delay time.Duration) queue.Job {
	t.Helper()
	r := h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: id, Body: []byte(body), Delay: delay})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Job
}

// keep runs a host's keeper, as its redis-checker does, until stop is called.
func (h *host) keep(t *testing.T, patience time.Duration) (k *Keeper, stop func()) {
	t.Helper()
	k, err := NewKeeper(KeeperOptions{
		Dir: h.dir, Queue: h.queue, Every: 10 * time.Millisecond, Quiet: 50 * time.Millisecond,
		Again:    200 * time.Millisecond,
		Patience: patience, Away: h.away, Settle: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Shards: h.queue.Shards,
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

// TestNothingIsAnsweredBeforeItIsCompared: from the moment a server has lost everything until all hosts have replayed
// their journals, no request is answered from its data.
func TestNothingIsAnsweredBeforeItIsCompared(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	ka, _ := a.keep(t, wait.Limit)
	kb, _ := b.keep(t, wait.Limit)
	eventually(t, "the hosts to have heard of each other",
		func() bool { return len(ka.hosts.others()) == 1 && len(kb.hosts.others()) == 1 })
	ready(t, a, b)
	a.push(t, "of-a", `"a"`, time.Hour)
	b.push(t, "of-b", `"b"`, time.Hour)
	a.push(t, "deleted", `"x"`, time.Hour)
	if err := b.queue.Delete(t.Context(), "t", "deleted"); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	eventually(t, "both jobs to be back", func() bool {
		for _, id := range []string{"of-a", "of-b", "deleted"} {
			_, err := a.queue.Get(t.Context(), "t", id)
			var un *queue.UnavailableError
			switch {
			case errors.As(err, &un):
				return false
			case (err == nil) != (id != "deleted"):
				t.Fatalf("%s: %v", id, err)
			}
		}
		return true
	})
}

// TestAHostThatRestartsIsWaitedFor: a job that was deleted through it does not return when its shard loses everything
// meanwhile.
func TestAHostThatRestartsIsWaitedFor(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	ka, _ := a.keep(t, time.Minute)
	_, stop := b.keep(t, time.Minute)
	ready(t, a, b)
	eventually(t, "the hosts to have heard of each other", func() bool { return len(ka.hosts.others()) == 1 })
	a.push(t, "deleted", `"a"`, time.Hour)
	a.push(t, "kept", `"a"`, time.Hour)
	if err := b.queue.Delete(t.Context(), "t", "deleted"); err != nil {
		t.Fatal(err)
	}
	stop()
	eventually(t, "the host to know that the other has left", func() bool {
		ka.hosts.mu.Lock()
		defer ka.hosts.mu.Unlock()
		return slices.ContainsFunc(slices.Collect(maps.Values(ka.hosts.heard)), func(h heard) bool { return h.Left })
	})
	client.FlushAll(t.Context())
	eventually(t, "the first host to have replayed its journal", func() bool {
		return client.HExists(t.Context(), "wk:{0}:cmp", "by "+ka.host).Val()
	})
	var un *queue.UnavailableError
	if _, err := a.queue.Get(t.Context(), "t", "kept"); !errors.As(err, &un) {
		t.Errorf("before the other host is back: %v", err)
	}
	b.keep(t, time.Minute)
	eventually(t, "the shard to answer",
		func() bool { _, err := a.queue.Get(t.Context(), "t", "kept"); return err == nil })
	if _, err := a.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// TestAHostThatStaysAwayIsNotWaitedFor: the lines that only it has are replayed when it is back.
func TestAHostThatStaysAwayIsNotWaitedFor(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	a.away = 500 * time.Millisecond
	ka, _ := a.keep(t, time.Minute)
	_, stop := b.keep(t, time.Minute)
	ready(t, a, b)
	eventually(t, "the hosts to have heard of each other", func() bool { return len(ka.hosts.others()) == 1 })
	b.push(t, "of-b", `"b"`, time.Hour)
	a.push(t, "of-a", `"a"`, time.Hour)
	b.push(t, "changed", `"old"`, time.Hour)
	stop()
	eventually(t, "the host to know that the other has left", func() bool { return len(ka.hosts.others()) == 0 })
	body := []byte(`"new"`)
	if err := a.change(t.Context(), "t", "changed", queue.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	eventually(t, "the shard to answer",
		func() bool { _, err := a.queue.Get(t.Context(), "t", "of-a"); return err == nil })
	if _, err := a.queue.Get(t.Context(), "t", "of-b"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("of-b: %v", err)
	}
	b.keep(t, time.Minute)
	eventually(t, "the other host's job to be back",
		func() bool { _, err := a.queue.Get(t.Context(), "t", "of-b"); return err == nil })
	if job, err := a.queue.Get(t.Context(), "t", "changed"); err != nil || string(job.Body) != `"new"` {
		t.Errorf("the changed job is %+v, %v", job, err)
	}
}

// twoHosts attend an empty shard and know of each other: it is open.
func twoHosts(t *testing.T, url string) (a, b *host, inA, inB *attendant) {
	t.Helper()
	a, b = newHost(t, url), newHost(t, url)
	inA, inB = a.attendant(t), b.attendant(t)
	attendAll(t, inA, inB)
	attendAll(t, inA)
	ready(t, a, b)
	return a, b, inA, inB
}

// TestALossBeforeAnAbsentHostIsBack: the lines of the first loss that only that host has are replayed with those of the
// second.
func TestALossBeforeAnAbsentHostIsBack(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	b.push(t, "first", "1", time.Hour)
	client.FlushAll(t.Context())
	inA.opts.Patience = time.Millisecond
	attendAll(t, inA) // alone
	ready(t, a, b)
	b.push(t, "second", "1", time.Hour)
	client.Del(t.Context(), "wk:{0}:run") // another server
	inA.opts.Patience = wait.Limit
	attendAll(t, inA, inB)
	ready(t, a, b)
	attendAll(t, inB)
	for _, id := range []string{"first", "second"} {
		if _, err := a.queue.Get(t.Context(), "t", id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestAHostThatIsBackBringsNoDeletedJob: it had left when the server lost everything, and another host had deleted a
// job of its own.
func TestAHostThatIsBackBringsNoDeletedJob(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	a.push(t, "deleted", "1", time.Hour)
	a.push(t, "kept", "1", time.Hour)
	if err := b.queue.Delete(t.Context(), "t", "deleted"); err != nil {
		t.Fatal(err)
	}
	inA.leave()
	inB.hosts.away = 0
	attendAll(t, inB)
	client.FlushAll(t.Context())
	attendAll(t, inB)
	ready(t, b)
	attendAll(t, inA)
	if _, err := b.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if _, err := b.queue.Get(t.Context(), "t", "kept"); err != nil {
		t.Errorf("kept: %v", err)
	}
}

// TestAHostThatIsKilledIsWaitedForNotForEver: after Patience the shard opens.
func TestAHostThatIsKilledIsWaitedForNotForEver(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	attendAll(t, b.attendant(t)) // it never returns
	ka, _ := a.keep(t, 300*time.Millisecond)
	eventually(t, "the host to have heard of the other", func() bool { return len(ka.hosts.others()) == 1 })
	ready(t, a)
	a.push(t, "of-a", `"a"`, time.Hour)
	began := time.Now()
	client.Del(t.Context(), "wk:{0}:run")
	eventually(t, "the shard to answer",
		func() bool { _, err := a.queue.Get(t.Context(), "t", "of-a"); return err == nil })
	if waited := time.Since(began); waited < 300*time.Millisecond {
		t.Errorf("the other host was waited for %s", waited)
	}
}

// TestNothingIsReportedWhenNothingWasLost: when another host joins, or a server is back with all of its data.
func TestNothingIsReportedWhenNothingWasLost(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	inA, inB := a.attendant(t), b.attendant(t)
	var told []string
	var mu sync.Mutex
	inA.opts.Told = func(_ string, r Report, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(r.String(), err))
	}
	inB.opts.Told = inA.opts.Told
	attendAll(t, inA)
	ready(t, a)
	for _, id := range []string{"delivered", "dead", "deleted", "changed", "waits"} {
		a.push(t, id, "1", 0)
	}
	for token, v := range map[string]queue.Verdict{"1": queue.Done, "2": queue.Bury, "3": queue.Retry} {
		if _, _, err := a.work(t.Context(), token, v); err != nil {
			t.Fatal(err)
		}
	}
	_ = a.queue.Delete(t.Context(), "t", "deleted") // otherwise it may have been delivered
	attendAll(t, inB)
	client.Del(t.Context(), "wk:{0}:run") // another server
	attendAll(t, inA, inB)
	if ready(t, a, b); len(told) > 0 {
		t.Fatalf("told: %q", told)
	}
	client.FlushAll(t.Context())
	attendAll(t, inA, inB)
	if len(told) == 0 {
		t.Error("a loss was not reported")
	}
}

// TestALossInTheMidstOfAComparison loses no lines: the next one begins at the same position. One host had replayed its
// journal by then, the other had not.
func TestALossInTheMidstOfAComparison(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	b.push(t, "kept", `"b"`, time.Hour)
	b.push(t, "deleted", `"b"`, time.Hour)
	if err := a.queue.Delete(t.Context(), "t", "deleted"); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	began, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = inA.once(began) }) // waits for the other host
	eventually(t, "a host to have replayed its journal", func() bool {
		name := client.HGet(t.Context(), "wk:{0}:cmp", "name").Val()
		noted := client.HGet(t.Context(), "wk:{0}:hosts", inA.host).Val()
		return name != "" && strings.Contains(noted, name)
	})
	cancel()
	wg.Wait()
	held := remember(t, client)
	held.forget(t, client)
	client.HSet(t.Context(), "wk:{0}:cmp", "run", "another")
	attendAll(t, inA, inB)
	ready(t, a, b)
	if _, err := a.queue.Get(t.Context(), "t", "kept"); err != nil {
		t.Errorf("kept: %v", err)
	}
	if _, err := a.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// TestTheClockOfAHostMayGoBack just before a shard loses data, even to the day before: everything accepted since is in
// the journal after the position that the shard has stored.
func TestTheClockOfAHostMayGoBack(t *testing.T) {
	for name, back := range map[string]time.Duration{"ten minutes": 10 * time.Minute, "over midnight": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			url, client := startRedis(t)
			h := newHost(t, url)
			a := h.attendant(t)
			attendAll(t, a)
			for _, id := range []string{"kept", "replaced", "deleted"} {
				h.push(t, id, `"old"`, time.Hour)
			}
			h.push(t, "delivered", `"old"`, 0)
			attendAll(t, a)
			before := remember(t, client)
			h.off.Store(-int64(back))
			h.push(t, "new", `"new"`, time.Hour)
			replace := queue.Push{Topic: "t", ID: "replaced", Body: []byte(`"new"`), Delay: time.Hour,
				OnDuplicate: queue.Replace}
			if r := h.queue.Push(t.Context(), replace); r.Err != nil {
				t.Fatal(r.Err)
			}
			if err := h.queue.Delete(t.Context(), "t", "deleted"); err != nil {
				t.Fatal(err)
			}
			if _, id, err := h.work(t.Context(), "token", queue.Done); id != "delivered" || err != nil {
				t.Fatal(id, err)
			}
			before.forget(t, client)
			client.Del(t.Context(), "wk:{0}:run")
			attendAll(t, a)
			ready(t, h)
			for id, want := range map[string]string{"kept": `"old"`, "replaced": `"new"`, "new": `"new"`, "deleted": "",
				"delivered": ""} {
				job, err := h.queue.Get(t.Context(), "t", id)
				if want == "" && !errors.Is(err, queue.ErrNotFound) || want != "" &&
					(err != nil || string(job.Body) != want) {
					t.Errorf("%s is %+v, %v, want %s", id, job, err, want)
				}
			}
		})
	}
}

// TestAJobThatRanAgainIsAliveThoughAClockWentBack: the line of a later push, which found the job, is in the file of the
// day before the one with its run.
func TestAJobThatRanAgainIsAliveThoughAClockWentBack(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	a := h.attendant(t)
	attendAll(t, a)
	ready(t, h)
	h.push(t, "again", "1", 0)
	if _, id, err := h.work(t.Context(), "token", queue.Bury); id != "again" || err != nil {
		t.Fatal(id, err)
	}
	if _, err := h.queue.RunNow(t.Context(), "t", "again"); err != nil {
		t.Fatal(err)
	}
	h.off.Store(-int64(24 * time.Hour))
	if r := h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: "again"}); !r.Duplicate {
		t.Fatalf("pushed again: %+v", r)
	}
	client.FlushAll(t.Context())
	attendAll(t, a)
	ready(t, h)
	if j, err := h.queue.Get(t.Context(), "t", "again"); err != nil || j.State != queue.Ready {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestLateLinesAreReplayed: the lost server had answered these requests, and their lines were written after the
// comparison.
func TestLateLinesAreReplayed(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	attendAll(t, h.attendant(t))
	early := h.push(t, "early", `"1"`, time.Hour)
	h.mute.Store(true)
	late := h.push(t, "late", `"2"`, time.Hour)
	gone := h.push(t, "gone", `"3"`, time.Hour)
	h.mute.Store(false)
	client.FlushAll(t.Context())
	h.keep(t, time.Second)
	ready(t, h)
	lines := []journal.RequestLine{
		{Op: journal.OpPush, Topic: "t", ID: "late", Shard: "a", Revision: late.Revision, CreatedAt: late.CreatedAt,
			DueAt: late.DueAt, Body: []byte(`"2"`)},
		{Op: journal.OpPush, Topic: "t", ID: "gone", Shard: "a", Revision: gone.Revision, CreatedAt: gone.CreatedAt,
			DueAt: gone.DueAt, Body: []byte(`"3"`)},
		{Op: journal.OpDelete, Topic: "t", ID: "gone", Shard: "a", Revision: gone.Revision + 1,
			CreatedAt: gone.CreatedAt},
	}
	if err := h.journal.Requests(lines); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the late job to be back",
		func() bool { _, err := h.queue.Get(t.Context(), "t", "late"); return err == nil })
	if job, err := h.queue.Get(t.Context(), "t", "early"); err != nil || !job.DueAt.Equal(early.DueAt) {
		t.Errorf("early: %+v, %v", job, err)
	}
	if _, err := h.queue.Get(t.Context(), "t", "gone"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
}

// TestMovedJobsAreRecovered: of two shards, the one that gave its jobs away returns to its earlier state, and the one
// that received them loses everything. Each job is in one of them, with its last change.
func TestMovedJobsAreRecovered(t *testing.T) {
	urlA, a := startRedis(t)
	urlB, b := startRedis(t)
	h := newHost(t, urlA)
	h.adopt(t)
	for _, id := range []string{"1", "2", "deleted", "changed"} {
		h.push(t, id, `"old"`, time.Hour)
	}
	before := remember(t, a)
	if err := h.queue.SetShards(t.Context(),
		[]queue.ShardConfig{{Name: "a", URL: urlA, State: "draining"},
			{Name: "b", URL: urlB, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	h.adopt(t)
	if n, err := h.queue.Drain(t.Context(), h.queue.Shards()[0], "me"); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	body := []byte(`"new"`)
	if err := h.change(t.Context(), "t", "changed", queue.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	if err := h.queue.Delete(t.Context(), "t", "deleted"); err != nil {
		t.Fatal(err)
	}
	before.forget(t, a)
	a.Del(t.Context(), "wk:{0}:run")
	b.FlushAll(t.Context())
	h.keep(t, time.Second)
	for id, want := range map[string]string{"1": `"old"`, "2": `"old"`, "changed": `"new"`} {
		eventually(t, id+" to be there", func() bool {
			j, err := h.queue.Get(t.Context(), "t", id)
			return err == nil && j.Shard == "b" && string(j.Body) == want
		})
	}
	eventually(t, "both shards to answer", func() bool {
		st, err := h.queue.Stats(t.Context(), []string{"t"})
		return err == nil && st["t"].Delayed == 3
	})
}

// TestARedrivenJobThatDiesAgainHasNoExpiry, when both deaths and the re-drive are lost, and are in the journals of two
// hosts. A job that was re-driven by its id is not dead, although another host has its death.
func TestARedrivenJobThatDiesAgainHasNoExpiry(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	push := queue.Push{Topic: "t", ID: "again", TTL: time.Hour, Body: []byte("1")}
	if r := a.queue.Push(t.Context(), push); r.Err != nil {
		t.Fatal(r.Err)
	}
	work := func(h *host, token string) {
		t.Helper()
		if _, id, err := h.work(t.Context(), token, queue.Bury); err != nil || id == "" {
			t.Fatalf("worked on %q, %v", id, err)
		}
	}
	work(a, "1")
	if n, err := b.queue.RedriveDead(t.Context(), "t", []string{"again"}, 1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	work(a, "2")
	a.push(t, "given back", "2", 0)
	work(a, "3")
	e := queue.Ending{Ref: queue.Ref{Topic: "t", ID: "given back"}, In: []queue.State{queue.Dead}, Verb: queue.GiveBack}
	if ended := b.queue.End(t.Context(), []queue.Ending{e}); ended[0].Err != nil {
		t.Fatal(ended[0].Err)
	}
	client.FlushAll(t.Context())
	attendAll(t, inA, inB)
	ready(t, a, b)
	if j, err := a.queue.Get(t.Context(), "t", "again"); err != nil || j.State != queue.Dead || !j.ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err := a.queue.Get(t.Context(), "t", "given back"); err != nil || j.State != queue.Ready {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestAJobsOwnSettingsAreRecovered: its expiry, headers and retry waits, whether they are in the line of its push or of
// a change.
func TestAJobsOwnSettingsAreRecovered(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.keep(t, time.Second)
	ready(t, h)
	own := queue.Push{Topic: "t", Delay: time.Hour, TTL: 2 * time.Hour,
		Headers: map[string]string{"ts": "1", "Über": `"`},
		Retry:   []time.Duration{1500 * time.Millisecond, time.Minute}}
	instant := own
	own.ID, instant.ID, instant.TTL, instant.ExpiresAt = "pushed", "changed", 0, time.Now().Add(3*time.Hour)
	before := map[string]*queue.Job{}
	for _, p := range []queue.Push{own, instant} {
		if r := h.queue.Push(t.Context(), p); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	body := []byte("new")
	if err := h.change(t.Context(), "t", "changed", queue.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"pushed", "changed"} {
		j, err := h.queue.Get(t.Context(), "t", id)
		if err != nil || len(j.Headers) != 2 || len(j.Retry) != 2 || j.ExpiresAt.IsZero() {
			t.Fatal(j, err)
		}
		before[id] = j
	}
	if got := before["pushed"]; !got.ExpiresAt.Equal(got.CreatedAt.Add(2 * time.Hour)) {
		t.Fatalf("%+v", got)
	}
	client.FlushAll(t.Context())
	eventually(t, "the jobs to be back", func() bool {
		st, err := h.queue.Stats(t.Context(), []string{"t"})
		return err == nil && st["t"].Delayed == 2
	})
	for id, want := range before {
		got, err := h.queue.Get(t.Context(), "t", id)
		if err != nil {
			t.Fatal(err)
		}
		if want.ETag = got.ETag; !reflect.DeepEqual(got, want) { // the record has another place
			t.Errorf("%s is\n%+v, want\n%+v", id, got, want)
		}
	}
}

// TestJobsOfAPullTopicComeBack in any state. Leased jobs are ready again, and so are at once those that waited for
// their next attempt; the leases have ended.
func TestJobsOfAPullTopicComeBack(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.keep(t, time.Second)
	ready(t, h)
	topics := slices.Values([]queue.TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 10, Pull: true}})
	if err := h.queue.SetTopics(t.Context(), topics); err != nil {
		t.Fatal(err)
	}
	hour := time.Hour
	ends := []queue.Ending{
		{Verb: queue.Ack}, {Verb: queue.BuryLeased, Error: "why"}, {Verb: queue.GiveBack, Delay: hour},
		// this job stays leased
		{Verb: queue.Fail, Retry: []time.Duration{hour}}, {Verb: queue.ExtendLeased, TTR: hour},
	}
	for i := range ends {
		h.push(t, fmt.Sprint(ends[i].Verb), `1`, 0)
		jobs, err := h.queue.Take(t.Context(), queue.TakeRequest{Topics: []string{"t"}, Max: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		ends[i].Lease = jobs[0].Lease
	}
	for _, d := range h.queue.End(t.Context(), ends) {
		if d.Err != nil {
			t.Fatal(d.ID, d.Err)
		}
	}
	h.push(t, "ready", `1`, 0)
	h.push(t, "delayed", `1`, hour)
	client.FlushAll(t.Context())
	want := map[string]queue.State{
		"release": queue.Ready, "fail": queue.Ready, "extend": queue.Ready, "ready": queue.Ready,
		"delayed": queue.Delayed, "bury": queue.Dead,
	}
	eventually(t, "the jobs to be back", func() bool {
		st, err := h.queue.Stats(t.Context(), []string{"t"})
		return err == nil && st["t"].Delayed+st["t"].Ready+st["t"].Dead == int64(len(want))
	})
	for id, state := range want {
		if j, err := h.queue.Get(t.Context(), "t", id); err != nil || j.State != state {
			t.Errorf("%s is %+v, %v; want %s", id, j, err, state)
		}
	}
	if j, err := h.queue.Get(t.Context(), "t", "bury"); err != nil || j.DeadReason != "buried" || len(j.History) != 1 ||
		j.History[0].Error != "why" {
		t.Errorf("the buried job is %+v, %v", j, err)
	}
	if _, err := h.queue.Get(t.Context(), "t", "ack"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the acked job: %v", err)
	}
	for i := range ends {
		ends[i].Verb = queue.Ack
	}
	for _, d := range h.queue.End(t.Context(), ends) {
		if !errors.Is(d.Err, queue.ErrLease) {
			t.Errorf("an ack by the old lease of %s: %v", d.ID, d.Err)
		}
	}
	if err := h.queue.SetTopics(t.Context(), topics); err != nil { // this queue is not told that they were lost
		t.Fatal(err)
	}
	jobs, err := h.queue.Take(t.Context(), queue.TakeRequest{Topics: []string{"t"}, Max: 100})
	for _, j := range jobs {
		if want[j.ID] != queue.Ready || j.Attempt != 1 {
			t.Errorf("took %+v", j)
		}
	}
	if err != nil || len(jobs) != 4 {
		t.Errorf("took %d jobs, %v", len(jobs), err)
	}
}

// TestAPushThatWasRepeatedAfterAJournalErrorIsRecovered: the journal failed at first, so the job existed when it was
// pushed again.
func TestAPushThatWasRepeatedAfterAJournalErrorIsRecovered(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	push := func() queue.Result {
		return h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: "1", Body: []byte(`"body"`), Delay: time.Hour})
	}
	h.full.Store(true)
	if r := push(); r.Err == nil {
		t.Fatal("a push that the journal refused was accepted")
	}
	h.full.Store(false)
	first := push()
	if first.Err != nil || !first.Duplicate {
		t.Fatalf("%+v", first)
	}
	client.FlushAll(t.Context())
	h.adopt(t)
	if report, err := h.recover(t.Context(), false); err != nil || report.Pushed != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if j, err := h.queue.Get(t.Context(), "t", "1"); err != nil || string(j.Body) != `"body"` ||
		!j.DueAt.Equal(first.Job.DueAt) {
		t.Fatalf("%+v, %v", j, err)
	}
}

// TestTenThousandJobsAreBackInFiveSeconds after a shard has lost everything.
func TestTenThousandJobsAreBackInFiveSeconds(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.keep(t, time.Second)
	ready(t, h)
	began := time.Now()
	h.fill(t, 10_000)
	filled := time.Since(began)
	best := time.Hour
	for range 3 { // the best of several runs, because the machine may be busy
		client.FlushAll(t.Context())
		began := time.Now()
		eventually(t, "the last job to be back",
			func() bool { _, err := h.queue.Get(t.Context(), "t", "9999"); return err == nil })
		best = min(best, time.Since(began))
	}
	limit := 5*time.Second + 5*filled // depends on how busy the machine is
	if race.Enabled {
		limit *= 3
	}
	if best > limit {
		t.Errorf("it took %s", best)
	}
}

// fill pushes n jobs.
func (h *host) fill(t *testing.T, n int) {
	t.Helper()
	pushes := make([]queue.Push, 0, 500)
	for i := range n {
		pushes = append(pushes,
			queue.Push{Topic: "t", ID: fmt.Sprint(i), Body: []byte(`"of the job"`), Delay: time.Hour})
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

// TestLinesThatCannotBeReadAreSkipped: an unknown kind of line, unknown members and a torn line.
func TestLinesThatCannotBeReadAreSkipped(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	h.push(t, "first", `1`, time.Hour)
	f, err := os.OpenFile(onlyFile(t, h.dir, "request-*.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"ts":"2025-10-17T13:00:00.000Z","op":"teleport","topic":"t","id":"first","rev":8,"to":"x"}
{"ts":"2025-10-17T13:00:00.001Z","op":"push","topic":"t","id":"more","shard":"a","rev":9,"due_at":7258215845678,` +
		`"created_at":1760706000001,"priority":"urgent","mood":"good","body":"1"}
{"ts":"2025-10-17T13:00:00.002Z","op":"push","topic":"t","id":"to`)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	report, err := h.recover(t.Context(), false)
	if err != nil || report.Torn != 1 || report.Pushed != 1 || report.There != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	wantJob(t, h.queue, "more", queue.Delayed, func(j *queue.Job) bool { return j.Priority == queue.Normal })
}

func onlyFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %q, %v", pattern, names, err)
	}
	return names[0]
}

// TestADeadJobsReasonIsRecovered: the line of a callback has the reason of its failure, and that of a worker the reason
// of the job's death.
func TestADeadJobsReasonIsRecovered(t *testing.T) {
	for want, a := range map[string]journal.AttemptLine{
		"attempts": {Outcome: journal.Dead, Reason: "status", Status: 422, Error: "the endpoint answered 422"},
		"gone":     {Outcome: journal.Dead, Reason: "status", Status: 410, Error: "the endpoint answered 410"},
		"expired":  {Outcome: journal.Expired},
		"buried":   {Outcome: journal.Dead, Reason: "buried", Error: "a worker's"},
	} {
		a.CreatedAt, a.Revision = time.Now(), 7
		l, ok := lineOfAttempt(&a)
		if e := entryOf(&l); !ok || e.Job.DeadReason != want {
			t.Errorf("%+v is dead because of %q, want %q", a, e.Job.DeadReason, want)
		}
	}
}
