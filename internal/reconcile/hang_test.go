package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// closedLimit is the longest that a process that hangs may keep a shard closed, and a host that is waited for for 3 s.
const closedLimit = 5 * time.Second

// TestRecoveryByAnotherProcessWhenOneHangs: a process that was stopped has the journal's lock, but does nothing.
func TestRecoveryByAnotherProcessWhenOneHangs(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	_, stop := h.keep(t, wait.Limit)
	ready(t, h)
	h.push(t, "kept", "1", time.Hour)
	stop()
	hung, err := os.OpenFile(filepath.Join(h.dir, ".recovery.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	if err := disk.Flock(hung, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	h.keep(t, wait.Limit)
	opensIn(t, closedLimit, h, "kept")
}

// TestRecoveryAttendsWhileThereIsTraffic: wake-ups that are not for it do not postpone the next call of a host.
func TestRecoveryAttendsWhileThereIsTraffic(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	k, err := NewReconciler(ReconcilerOptions{
		Dir: h.dir, Queue: h.queue, Buckets: h.queue.Shards.Buckets, Every: 200 * time.Millisecond, Quiet: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = k.Run(ctx) })
	ready(t, h)
	wg.Go(func() {
		for ctx.Err() == nil {
			client.Publish(ctx, "wk:{0}:wake", "D")
		}
	})
	first := h.seen(t)
	eventually(t, "the host to attend again", func() bool { return h.seen(t).After(first.Add(time.Second)) })
}

// seen returns when the shards last heard of the host.
func (h *host) seen(t *testing.T) time.Time {
	t.Helper()
	hosts, err := Hosts(t.Context(), h.queue)
	if err != nil || len(hosts) != 1 {
		t.Fatalf("hosts: %+v, %v", hosts, err)
	}
	return hosts[0].Seen
}

// TestRecoveryWithoutAHostThatHangs: it has attended the shard, and does not replay its journal in time.
func TestRecoveryWithoutAHostThatHangs(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	a.push(t, "kept", "1", time.Hour)
	b.push(t, "of b", "1", time.Hour)
	attendAll(t, inA, inB)
	k, _ := a.keep(t, 3*time.Second)
	eventually(t, "the host to have heard of the other", func() bool { return len(k.hosts.known()) == 1 })
	client.FlushAll(t.Context())
	opensIn(t, closedLimit, a, "kept")
}

func opensIn(t *testing.T, limit time.Duration, h *host, id string) {
	t.Helper()
	began := time.Now()
	eventually(t, "the shard to answer", func() bool {
		_, err := h.queue.Get(t.Context(), "t", id)
		return err == nil
	})
	if took := time.Since(began); took > limit {
		t.Errorf("the shard was closed for %s", took)
	}
}

// TestRecoveryAcceptsPushes that no journal can know of while a shard is compared, and replacements: they are newer
// than all that the journals have.
func TestRecoveryAcceptsPushes(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	a.push(t, "replaced", `"old"`, time.Hour)
	a.push(t, "kept", `"old"`, time.Hour)
	client.FlushAll(t.Context())
	if _, err := inA.send(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	fresh := store.NewID()
	for _, p := range []store.Push{
		{Topic: "t", ID: fresh, Fresh: true, Body: []byte("1"), Delay: time.Hour},
		{Topic: "t", ID: "replaced", OnDuplicate: store.Replace, Body: []byte(`"new"`), Delay: time.Hour},
	} {
		if r := b.queue.Push(t.Context(), p); r.Err != nil {
			t.Errorf("%s: %v", p.ID, r.Err)
		}
	}
	r := b.queue.Push(t.Context(), store.Push{Topic: "t", ID: "kept", Body: []byte(`"new"`)})
	if _, ok := errors.AsType[*store.UnavailableError](r.Err); !ok {
		t.Errorf("kept: %v", r.Err)
	}
	attendAll(t, inA, inB)
	ready(t, a, b)
	for id, want := range map[string]string{fresh: "1", "replaced": `"new"`, "kept": `"old"`} {
		if j, err := a.queue.Get(t.Context(), "t", id); err != nil || string(j.Body) != want {
			t.Errorf("%s: %+v, %v", id, j, err)
		}
	}
}

// TestRecoveryAfterAnUnfinishedOne: the server fails again after it accepted pushes, before it was compared.
func TestRecoveryAfterAnUnfinishedOne(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	a.push(t, "lost", "1", time.Hour)
	client.FlushAll(t.Context())
	if _, err := inA.send(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	client.HSet(t.Context(), "wk:{0}:cmp", "run", "another")
	attendAll(t, inA, inB)
	ready(t, a, b)
	if _, err := b.queue.Get(t.Context(), "t", "lost"); err != nil {
		t.Error(err)
	}
}

// TestRecoveryRefusesALateProcess: it was stopped while it compared a shard, and continues when that is open.
func TestRecoveryRefusesALateProcess(t *testing.T) {
	h, in, client := oneHost(t)
	job := h.push(t, "deleted", "1", time.Hour)
	client.FlushAll(t.Context())
	c, err := in.send(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	attendAll(t, in)
	ready(t, h)
	if err := h.queue.Delete(t.Context(), "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	job.Topic, job.Body = "t", []byte("1")
	_, _ = Replay(t.Context(), in.bucket, ReplayCompare, c.Name, false,
		[]Entry{{Kind: EntryStored, Revision: job.Revision, Job: job}})
	if _, err := h.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the job was stored after its deletion: %v", err)
	}
}
