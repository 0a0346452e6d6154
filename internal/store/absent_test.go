package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
)

// compares begins a comparison by host a, which has replayed its journal, and returns the outcome.
func (f *fixture) compares(known ...string) reconcile.Opened {
	f.Helper()
	c := f.attend("a")
	opened, err := reconcile.OpenBucket(f.ctx, f.b, reconcile.ComparedBy{
		Host: "a", Name: c.Name, Highest: c.After + 1, Known: known, Patience: time.Millisecond,
	})
	if err != nil {
		f.Fatal(err)
	}
	return opened
}

// empty makes the server lose everything.
func (f *fixture) empty() {
	f.Helper()
	if err := f.s.Redis().FlushAll(f.ctx).Err(); err != nil {
		f.Fatal(err)
	}
}

// opens waits until the bucket is open without the hosts that do not report.
func (f *fixture) opens(known ...string) (absent []string) {
	f.Helper()
	eventually(f, "the bucket to be open", func() bool {
		o := f.compares(known...)
		absent = o.Absent
		return o.Open
	})
	return absent
}

// ages makes a host's last attendance older by d.
func (f *fixture) ages(host string, d time.Duration) {
	f.Helper()
	key := store.Prefix(0) + "hosts"
	if err := f.s.Redis().HIncrBy(f.ctx, key, "at "+host, -d.Milliseconds()).Err(); err != nil {
		f.Fatal(err)
	}
}

// TestAHostThatStoppedCleanlyIsNotAbsent as long as the data has its last words: it has all of its changes, too. Nor is
// one that had been silent for long when the data was lost. Any other one is.
func TestAHostThatStoppedCleanlyIsNotAbsent(t *testing.T) {
	f := newFixture(t)
	for _, host := range []string{"a", "stopped", "silent", "killed"} {
		f.attend(host)
	}
	if _, err := reconcile.Attend(f.ctx, f.b, reconcile.Attendance{Host: "stopped", Leaves: true}); err != nil {
		t.Fatal(err)
	}
	f.ages("silent", time.Minute)
	f.lose()
	known := []string{"stopped", "silent", "killed"}
	if absent := f.opens(known...); !slices.Equal(absent, []string{"killed"}) {
		t.Errorf("absent: %q", absent)
	}
	f.lose()
	if o := f.compares(known...); !o.Open || len(o.Absent) > 0 {
		t.Errorf("it waits again for hosts that are absent anyway: %+v", o)
	}
	f.empty()
	if absent := f.opens(known...); len(absent) != 3 {
		t.Errorf("absent from an emptied bucket: %q", absent)
	}
}

// TestANewBucketHasNoAbsentHosts: no journal has a change of it.
func TestANewBucketHasNoAbsentHosts(t *testing.T) {
	f := newFixture(t)
	f.empty()
	c := f.attend("a")
	if o := f.compared("a", c, "b"); !o.Open || len(o.Absent) > 0 {
		t.Errorf("%+v", o)
	}
}

// TestAHostIsForgotten: nothing waits for its journal any longer, the other hosts forget it, and it replays nothing when
// it is back.
func TestAHostIsForgotten(t *testing.T) {
	f := newFixture(t)
	f.empty()
	f.opens("b", "c")
	hosts, err := reconcile.Hosts(f.ctx, f.q)
	if err != nil || len(hosts) != 3 || hosts[0].State != "running" || hosts[1].Name != "b" ||
		!slices.Equal(hosts[1].Absent, []string{f.s.Name()}) {
		t.Errorf("hosts: %+v, %v", hosts, err)
	}
	for _, host := range []string{"a", "unknown"} {
		if err := reconcile.ForgetHost(f.ctx, f.q, host); err == nil {
			t.Errorf("%s was forgotten", host)
		}
	}
	for _, host := range []string{"b", "c"} {
		if err := f.b.Awaits(f.ctx); !store.IsAbsent(err) || !strings.Contains(err.Error(), host) {
			t.Errorf("before %s is forgotten: %v", host, err)
		}
		if err := reconcile.ForgetHost(f.ctx, f.q, host); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.b.Awaits(f.ctx); err != nil {
		t.Error(err)
	}
	if seen := f.attend("a").Hosts; len(seen) != 2 || !seen[0].At.IsZero() || !seen[1].At.IsZero() {
		t.Errorf("a is told of %+v", seen)
	}
	if c := f.attend("b"); !c.Open || len(c.Missed) > 0 {
		t.Errorf("when it is back: %+v", c)
	}
	if before, err := f.s.Redis().HGet(f.ctx, store.Prefix(0)+"cmp", "before").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("journals up to %q are still overridden (%v)", before, err)
	}
}

// TestAJobStoredDuringALongComparisonOverridesAbsentHosts: it replaced an older one that only their journals have, so
// nothing brings that back when it has ended.
func TestAJobStoredDuringALongComparisonOverridesAbsentHosts(t *testing.T) {
	f := newFixture(t)
	f.empty()
	f.attend("a")
	base := f.s.Redis().DecrBy(f.ctx, store.Prefix(0)+"rev", 300*1000*100).Val() // it began five minutes ago
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"cmp", "base", base)
	p := store.Push{Topic: "t", ID: "x", Body: []byte(`"new"`), Delay: time.Hour, OnDuplicate: store.Replace}
	if r := f.q.Push(f.ctx, p); r.Err != nil {
		t.Fatal(r.Err)
	}
	if absent := f.opens("b"); len(absent) != 1 {
		t.Fatalf("absent: %q", absent)
	}
	eventually(t, "the shard to answer", func() bool { _, err := f.q.Get(f.ctx, "t", "x"); return err == nil })
	if err := f.q.Delete(f.ctx, "t", "x", nil); err != nil {
		t.Fatal(err)
	}
	old := reconcile.Entry{Kind: reconcile.EntryStored, Revision: base - 1, Job: store.Job{
		Topic: "t", ID: "x", Body: []byte(`"old"`), DueAt: time.Now(), CreatedAt: time.Now().Add(-time.Hour),
	}}
	effects, err := reconcile.Replay(f.ctx, f.b, reconcile.ReplayLate, "", false, []reconcile.Entry{old})
	if err != nil || effects[0] != reconcile.EffectNone {
		t.Errorf("the line of the absent host: %q, %v", effects, err)
	}
}

// TestTheJobsOfANamespaceAreNotDeletedWhileAHostIsAbsent: its journal may have jobs of topics that have none here.
func TestTheJobsOfANamespaceAreNotDeletedWhileAHostIsAbsent(t *testing.T) {
	f := newFixture(t)
	f.push("ns.here", "x", time.Hour)
	f.empty()
	f.opens("b")
	eventually(t, "the shard to answer", func() bool { return f.q.Ready() == nil })
	f.push("ns.here", "y", time.Hour, func(p *store.Push) { p.OnDuplicate = store.Replace })
	if _, err := f.q.DropTopic(f.ctx, "ns.*"); !store.IsAbsent(err) {
		t.Errorf("while b is absent: %v", err)
	}
	if err := reconcile.ForgetHost(f.ctx, f.q, "b"); err != nil {
		t.Fatal(err)
	}
	if n, err := f.q.DropTopic(f.ctx, "ns.*"); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}
