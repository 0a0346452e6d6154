package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// TestRecoveryComparesBeforeAnythingIsAnswered: from the moment a server has lost everything until all hosts have
// replayed their journals, no request is answered from its data.
func TestRecoveryComparesBeforeAnythingIsAnswered(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	ka, _ := a.keep(t, wait.Limit)
	kb, _ := b.keep(t, wait.Limit)
	eventually(t, "the hosts to have heard of each other",
		func() bool { return len(ka.hosts.known()) == 1 && len(kb.hosts.known()) == 1 })
	ready(t, a, b)
	a.push(t, "of-a", `"a"`, time.Hour)
	b.push(t, "of-b", `"b"`, time.Hour)
	a.push(t, "deleted", `"x"`, time.Hour)
	if err := b.queue.Delete(t.Context(), "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	eventually(t, "both jobs to be back", func() bool {
		for _, id := range []string{"of-a", "of-b", "deleted"} {
			_, err := a.queue.Get(t.Context(), "t", id)
			var un *store.UnavailableError
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

// TestRecoveryWaitsForAHostThatRestarts: a job that was deleted through it does not return when its shard loses
// everything meanwhile.
func TestRecoveryWaitsForAHostThatRestarts(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	ka, _ := a.keep(t, time.Minute)
	_, stop := b.keep(t, time.Minute)
	ready(t, a, b)
	eventually(t, "the hosts to have heard of each other", func() bool { return len(ka.hosts.known()) == 1 })
	a.push(t, "deleted", `"a"`, time.Hour)
	a.push(t, "kept", `"a"`, time.Hour)
	if err := b.queue.Delete(t.Context(), "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	stop()
	client.FlushAll(t.Context())
	eventually(t, "the first host to have replayed its journal", func() bool {
		return client.HExists(t.Context(), "wk:{0}:cmp", "by "+ka.host).Val()
	})
	var un *store.UnavailableError
	if _, err := a.queue.Get(t.Context(), "t", "kept"); !errors.As(err, &un) {
		t.Errorf("before the other host is back: %v", err)
	}
	b.keep(t, time.Minute)
	eventually(t, "the shard to answer",
		func() bool { _, err := a.queue.Get(t.Context(), "t", "kept"); return err == nil })
	if _, err := a.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// TestRecoveryOfALossBeforeAnAbsentHostIsBack: the lines of the first loss that only that host has are replayed with
// those of the second.
func TestRecoveryOfALossBeforeAnAbsentHostIsBack(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	b.push(t, "first", "1", time.Hour)
	client.FlushAll(t.Context())
	inA.opts.Patience = time.Millisecond
	attendAll(t, inA) // alone
	ready(t, a, b)
	second := store.Push{Topic: "t", ID: "second", Body: []byte("1"), Delay: time.Hour, OnDuplicate: store.Replace}
	if r := b.queue.Push(t.Context(), second); r.Err != nil {
		t.Fatal(r.Err)
	}
	client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
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

// TestRecoveryRestoresNoDeletedJobOfAHostThatIsBack: it had left when the server lost everything, and another host had
// deleted a job of its own.
func TestRecoveryRestoresNoDeletedJobOfAHostThatIsBack(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	a.push(t, "deleted", "1", time.Hour)
	a.push(t, "kept", "1", time.Hour)
	if err := b.queue.Delete(t.Context(), "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	inB.opts.Patience = time.Millisecond
	attendAll(t, inB)
	client.FlushAll(t.Context())
	attendAll(t, inB)
	ready(t, b)
	attendAll(t, inA)
	if _, err := b.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if _, err := b.queue.Get(t.Context(), "t", "kept"); err != nil {
		t.Errorf("kept: %v", err)
	}
}

// TestRecoveryDoesNotWaitForeverForAKilledHost: after Patience the shard opens.
func TestRecoveryDoesNotWaitForeverForAKilledHost(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	attendAll(t, b.heartbeatOf(t)) // it never returns
	ka, _ := a.keep(t, 300*time.Millisecond)
	eventually(t, "the host to have heard of the other", func() bool { return len(ka.hosts.known()) == 1 })
	ready(t, a)
	a.push(t, "of-a", `"a"`, time.Hour)
	began := time.Now()
	client.HDel(t.Context(), "wk:{0}:cmp", "run")
	eventually(t, "the shard to answer",
		func() bool { _, err := a.queue.Get(t.Context(), "t", "of-a"); return err == nil })
	if waited := time.Since(began); waited < 300*time.Millisecond {
		t.Errorf("the other host was waited for %s", waited)
	}
}
