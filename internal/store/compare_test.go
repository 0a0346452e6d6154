package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
)

// attend registers a host as attending the shard's only bucket.
func (f *fixture) attend(host string) reconcile.Comparison {
	f.Helper()
	c, err := reconcile.Attend(f.ctx, f.b, reconcile.Attendance{Host: host})
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// patience is how long a silent host is waited for.
const patience = 3 * time.Second

// compared reports to the bucket that a host has replayed its journal.
func (f *fixture) compared(host string, c reconcile.Comparison, known ...string) reconcile.Opened {
	f.Helper()
	opened, err := reconcile.OpenBucket(f.ctx, f.b, reconcile.ComparedBy{Host: host, Name: c.Name, Highest: c.After, Known: known, Patience: patience})
	if err != nil {
		f.Fatal(err)
	}
	return opened
}

// lose disconnects the shard from its server: the next server has the same data.
func (f *fixture) lose() {
	f.Helper()
	if err := f.s.Redis().HDel(f.ctx, store.Prefix(0)+"cmp", "run").Err(); err != nil {
		f.Fatal(err)
	}
}

// TestALateReportOfAnEarlierComparisonOpensNothing: the server lost everything twice, and a slow host reports that it
// replayed its journal after the first loss.
func TestALateReportOfAnEarlierComparisonOpensNothing(t *testing.T) {
	f := newFixture(t)
	var first reconcile.Comparison
	for n := range 2 {
		if err := f.s.Redis().FlushAll(f.ctx).Err(); err != nil {
			f.Fatal(err)
		}
		c := f.attend("a")
		f.attend("b")
		if n == 0 {
			first = c
			continue
		}
		if o := f.compared("b", first); !o.Another {
			f.Errorf("the bucket accepted %+v", o)
		}
		if o := f.compared("a", c, "b"); o.Open {
			f.Error("the bucket was opened before b had replayed its journal")
		}
		if o := f.compared("b", c, "a"); !o.Open {
			f.Error("the bucket is not open though all hosts have replayed their journals")
		}
	}
}

// TestAHostThatLeavesIsWaitedFor: only its journal has the deletions made through it.
func TestAHostThatLeavesIsWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.lose()
	c := f.attend("a")
	f.attend("b")
	if _, err := reconcile.Attend(f.ctx, f.b, reconcile.Attendance{Host: "b", Leaves: true}); err != nil {
		f.Fatal(err)
	}
	by := reconcile.ComparedBy{Host: "a", Name: c.Name, Highest: c.After, Known: []string{"b"}, Patience: time.Hour}
	if o, err := reconcile.OpenBucket(f.ctx, f.b, by); err != nil || o.Open {
		f.Fatalf("b was not waited for: %+v, %v", o, err)
	}
}

// TestAHostThatIsReplayingIsWaitedFor however long its journal takes, up to a limit; a silent host is not.
func TestAHostThatIsReplayingIsWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.lose()
	c := f.attend("a")
	var last time.Time
	for began := time.Now(); time.Since(began) < 2*patience; {
		last = time.Now()
		f.attend("b")
		if o := f.compared("a", c, "b"); o.Open && time.Since(last) < patience {
			f.Fatalf("b was waited for %s", time.Since(began))
		}
	}
	eventually(t, "the bucket to be open", func() bool {
		o := f.compared("a", c, "b")
		if o.Open && !slices.Equal(o.Absent, []string{"b"}) {
			t.Errorf("opened without %q", o.Absent)
		}
		return o.Open
	})
	if waited := time.Since(last); waited < patience-100*time.Millisecond {
		t.Errorf("b was waited for %s", waited)
	}
}

// TestAHostThatNeverFinishesIsNotWaitedForForever although it still attends the bucket.
func TestAHostThatNeverFinishesIsNotWaitedForForever(t *testing.T) {
	f := newFixture(t)
	f.lose()
	c := f.attend("a")
	by := reconcile.ComparedBy{Host: "a", Name: c.Name, Highest: c.After, Known: []string{"b"}, Patience: 20 * time.Millisecond}
	eventually(t, "the bucket to be open", func() bool {
		f.attend("b")
		o, err := reconcile.OpenBucket(f.ctx, f.b, by)
		if err != nil {
			t.Fatal(err)
		}
		return o.Open
	})
}

// TestADeadJobThatRanAgainInTheMillisecondOfItsDueTimeIsAlive although its record is the same as when it died.
func TestADeadJobThatRanAgainInTheMillisecondOfItsDueTimeIsAlive(t *testing.T) {
	f := newFixture(t)
	r := f.push("t", "1", 0)
	f.settle(store.Bury, nil, f.reserve(1)...)
	f.lose()
	c := f.attend("a")
	job := r.Job
	job.Topic, job.Body = "t", []byte(`{"id":"1"}`)
	ran := reconcile.Entry{Kind: reconcile.EntryStored, Revision: c.After + 1, Job: job}
	found := ran // as after a push of its id
	found.Revision = c.After
	for want, e := range map[reconcile.Effect]reconcile.Entry{reconcile.EffectNone: found, reconcile.EffectReplaced: ran} {
		effects, err := reconcile.Replay(f.ctx, f.b, reconcile.ReplayCompare, c.Name, true, []reconcile.Entry{e})
		if err != nil || len(effects) != 1 || effects[0] != want {
			f.Errorf("dry: %q, %v; want %q", effects, err, want)
		}
	}
	if _, err := reconcile.Replay(f.ctx, f.b, reconcile.ReplayCompare, c.Name, false, []reconcile.Entry{ran}); err != nil {
		f.Fatal(err)
	}
	if o := f.compared("a", c); !o.Open {
		f.Fatal("not open")
	}
	f.b.DownForTest().Store(false)
	if j := f.get("t", "1"); j.State == store.Dead || j.Attempts != 0 || !j.DueAt.Equal(r.Job.DueAt) {
		f.Errorf("the job is %+v", j)
	}
}

// TestAJobThatRanAfterItDiedIsAliveInAnyOrderOfReplays: the host that knows the death replays first, with the
// content of a push that found the job changed; the host that ran and changed it replays after that.
func TestAJobThatRanAfterItDiedIsAliveInAnyOrderOfReplays(t *testing.T) {
	f := newFixture(t)
	r := f.push("t", "1", 0)
	f.settle(store.Bury, nil, f.reserve(1)...)
	f.lose()
	c := f.attend("a")
	died, changed := r.Job, r.Job
	died.Topic, changed.Topic, changed.Body = "t", "t", []byte(`"changed"`)
	died.DeadAt, died.DeadReason, died.Attempts = died.CreatedAt, "gone", 1
	found := reconcile.Entry{Kind: reconcile.EntryStored, Revision: c.After + 2, Job: changed} // it may be dead
	ran := reconcile.Entry{Kind: reconcile.EntryStored, Revision: c.After + 1, Job: changed}
	for _, e := range []reconcile.Entry{found, {Kind: reconcile.EntryDied, Revision: c.After, Job: died}, ran, ran} {
		if _, err := reconcile.Replay(f.ctx, f.b, reconcile.ReplayCompare, c.Name, false, []reconcile.Entry{e}); err != nil {
			f.Fatal(err)
		}
	}
	if o := f.compared("a", c); !o.Open {
		f.Fatal("not open")
	}
	f.b.DownForTest().Store(false)
	if j := f.get("t", "1"); j.State == store.Dead || j.Attempts != 0 || string(j.Body) != `"changed"` {
		f.Errorf("the job is %+v", j)
	}
}

// TestAServerThatIsNotComparedAnswersNothing, and says when to retry.
func TestAServerThatIsNotComparedAnswersNothing(t *testing.T) {
	f := newFixture(t)
	f.push("t", "1", time.Hour)
	f.lose()
	_, err := f.q.Get(f.ctx, "t", "1")
	var un *store.UnavailableError
	if !errors.As(err, &un) || un.Reason != "comparing" || un.RetryAfter <= 0 {
		f.Errorf("%v", err)
	}
}

// TestTheLimitsOfTopicsAreSetBeforeTheShardIsOpen: a paused topic stays paused after the server lost everything.
func TestTheLimitsOfTopicsAreSetBeforeTheShardIsOpen(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, store.Options{Announced: func() {}})
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{{Name: "t", Paused: true}})); err != nil {
		t.Fatal(err)
	}
	conf := func() bool { return f.s.Redis().Exists(f.ctx, store.Prefix(0)+"c:t").Val() == 1 }
	eventually(t, "the topic's limits are set", conf)
	eventually(t, "the shard has a listener", func() bool {
		return f.s.Redis().PubSubNumSub(f.ctx, store.RegistryChannel).Val()[store.RegistryChannel] > 0
	})
	if err := f.s.Redis().FlushAll(f.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.q.Get(f.ctx, "t", "1"); err == nil || f.s.Up() {
		t.Fatalf("the shard answers: %v", err)
	}
	f.attend("a")
	eventually(t, "the topic's limits are set again", conf)
}

// TestLinesApplyToJobsWithExtras, that is, to jobs with an expiry, headers and retry waits of their own.
func TestLinesApplyToJobsWithExtras(t *testing.T) {
	f := newFixture(t)
	jobs := map[string]store.Job{}
	for _, id := range []string{"delivered", "deleted", "died", "replaced"} {
		r := f.push("t", id, time.Hour, func(p *store.Push) {
			p.TTL, p.Headers, p.Retry = 2*time.Hour, map[string]string{"k": "v"}, []time.Duration{time.Second}
		})
		jobs[id] = r.Job
	}
	f.lose()
	c := f.attend("a")
	entry := func(kind reconcile.EntryKind, id string) reconcile.Entry {
		j := jobs[id]
		if kind == reconcile.EntryDied {
			j.DeadAt, j.DeadReason, j.Attempts = j.CreatedAt, "gone", 1
		}
		return reconcile.Entry{Kind: kind, Revision: c.After + 1, Job: j}
	}
	replaced := entry(reconcile.EntryStored, "replaced")
	replaced.Job.Body = []byte("other")
	effects, err := reconcile.Replay(f.ctx, f.b, reconcile.ReplayCompare, c.Name, false, []reconcile.Entry{
		entry(reconcile.EntryDelivered, "delivered"), entry(reconcile.EntryDeleted, "deleted"), entry(reconcile.EntryDied, "died"),
		replaced,
	})
	want := []reconcile.Effect{reconcile.EffectRemoved, reconcile.EffectRemoved, reconcile.EffectBuried, reconcile.EffectReplaced}
	if err != nil || !slices.Equal(effects, want) {
		t.Fatalf("%q, %v; want %q", effects, err, want)
	}
	if o := f.compared("a", c); !o.Open {
		f.Fatal("not open")
	}
	f.b.DownForTest().Store(false)
	if j := f.get("t", "replaced"); string(j.Body) != "other" || j.Headers["k"] != "v" || len(j.Retry) != 1 ||
		!j.ExpiresAt.Equal(jobs["replaced"].ExpiresAt) {
		f.Errorf("the job is %+v", j)
	}
}
