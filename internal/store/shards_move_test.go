package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// TestAChangeIsOneOfEveryCopy: a push whose answer was lost may have left a copy in a second shard.
func TestAChangeIsOneOfEveryCopy(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	states("active", "active")
	for _, s := range f.q.Shards.All() {
		if r, _ := s.Buckets()[0].StoreAllForTest(store.Memory, []store.Push{{Topic: "t", ID: "1", Delay: time.Hour, Body: []byte(`"old"`)}},
			wait.Limit); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
		for stored := time.Now().UnixMilli(); time.Now().UnixMilli() == stored; { // the next one is created later
		}
	}
	body, delay := []byte(`"new"`), 2*time.Hour
	j, err := f.q.Change(f.ctx, "t", "1", store.Change{Body: &body, Delay: &delay})
	if err != nil || string(j.Body) != `"new"` {
		t.Fatalf("%+v, %v", j, err)
	}
	for _, s := range f.q.Shards.All() {
		if j, err := read(f.ctx, s, "t", "1"); err != nil || string(j.Body) != `"new"` ||
			time.Until(j.DueAt) < 110*time.Minute {
			t.Errorf("in shard %s it is %+v, %v", s.Name(), j, err)
		}
	}
}

// TestADeadJobOnTheMoveCountsOnce: it is in both shards, and both copies go.
func TestADeadJobOnTheMoveCountsOnce(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	states("active", "active")
	for _, s := range f.q.Shards.All() {
		r, _ := s.Buckets()[0].StoreAllForTest(store.Memory, []store.Push{{Topic: "t", ID: "1", Body: []byte(`1`)}}, wait.Limit)
		got, err := s.Buckets()[0].Reserve(f.ctx, store.Reserve{Worker: "w", Token: s.Name(), Max: 1, Pattern: "0102010201"})
		if r[0].Err != nil || err != nil || len(got.Jobs) != 1 {
			t.Fatal(r, got, err)
		}
		end := store.End{Lease: got.Jobs[0].Lease, Verb: store.Bury, Attempt: &store.Attempt{Status: 500}}
		if _, err := s.Buckets()[0].End(f.ctx, []store.End{end}); err != nil {
			t.Fatal(err)
		}
	}
	f.push("t", "2", time.Hour)
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "t", IDs: []string{"1", "2"}}); n != 1 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	for _, s := range f.q.Shards.All() {
		if j, err := read(f.ctx, s, "t", "1"); j != nil || err != nil {
			t.Errorf("in shard %s it is %+v, %v", s.Name(), j, err)
		}
	}
}

// TestADeadJobWithACopyThatWaitsIsNotDeleted: the other copy would be called after the deletion was answered.
func TestADeadJobWithACopyThatWaitsIsNotDeleted(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	states("active", "active")
	for _, s := range f.q.Shards.All() {
		r, _ := s.Buckets()[0].StoreAllForTest(store.Memory, []store.Push{{Topic: "t", ID: "1", Body: []byte(`1`)}}, wait.Limit)
		if r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	f.settle(store.Bury, nil, f.reserve(1)...)
	for _, kind := range []store.ChangeKind{store.Redriven, store.DeadDeleted} {
		n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: kind, Topic: "t", IDs: []string{"1"}})
		if n != 0 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if j, err := read(f.ctx, f.s, "t", "1"); err != nil || j == nil || j.State != store.Dead {
		t.Errorf("the dead copy is %+v, %v", j, err)
	}
}

// TestAChangeOfAJobOnTheMoveLeavesOne: the job is in both shards during its move, and becomes due in one of them.
func TestAChangeOfAJobOnTheMoveLeavesOne(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	f.push("t", "1", time.Hour)
	states("draining", "active")
	job := f.get("t", "1")
	f.restore(f.q.Shards.Buckets()[1], job)
	soon := time.Duration(0)
	if _, err := f.q.Change(f.ctx, "t", "1", store.Change{Delay: &soon}); err != nil {
		t.Fatal(err)
	}
	if !f.leave(f.b, job) {
		t.Fatal("the unchanged copy stays")
	}
	if j, x := f.get("t", "1"), f.totals("t"); j.Shard != "b" || x.Ready != 1 || x.Delayed != 0 {
		t.Errorf("%+v\n%+v", j, x)
	}
}

// TestAMovedJobKeepsItsAttempts, also when their number was set to 0, and leaves none of them when it is deleted.
func TestAMovedJobKeepsItsAttempts(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	f.push("t", "1", 0)
	f.settle(store.Bury, nil, f.reserve(1)...)
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "t", IDs: []string{"1"}}); n != 1 || err != nil {
		t.Fatalf("redrive: %d, %v", n, err)
	}
	later := time.Hour
	if _, err := f.q.Change(f.ctx, "t", "1", store.Change{Delay: &later}); err != nil {
		t.Fatal(err)
	}
	states("draining", "active")
	if n := f.drain(); n != 1 {
		t.Fatalf("%d jobs were moved", n)
	}
	if j := f.get("t", "1"); j.Shard != "b" || j.Attempts != 0 || len(j.History) != 1 {
		t.Errorf("it is in %s, with %d attempts, of which %d are listed", j.Shard, j.Attempts, len(j.History))
	}
	if err := f.q.Delete(f.ctx, "t", "1", nil); err != nil {
		t.Fatal(err)
	}
	f.s, f.b = f.q.Shards.All()[1], f.q.Shards.Buckets()[1]
	f.clean()
}

// TestOneProcessMovesJobs, and another one continues where it stopped.
func TestOneProcessMovesJobs(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	f.push("t", "1", time.Hour)
	states("draining", "active")
	if err := f.s.Redis().Set(f.ctx, store.Prefix(0)+"mover", "another", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if n := f.drain(); n != 0 || f.get("t", "1").Shard != "a" {
		t.Fatalf("two processes move jobs: %d", n)
	}
	f.s.Redis().PExpire(f.ctx, store.Prefix(0)+"mover", time.Millisecond) // the other process is dead
	eventually(t, "the job is moved", func() bool { return f.drain() == 1 })
}

// TestACopyThatComesLateIsRefused: another process may have moved the job meanwhile, and it may have been delivered.
func TestACopyThatComesLateIsRefused(t *testing.T) {
	pace := store.DefaultPace
	pace.Within = -time.Millisecond
	f, states := twoShards(t, store.Options{Pace: &pace})
	f.push("t", "1", time.Hour)
	states("draining", "active")
	n, err := f.q.Drain(f.ctx, f.s, "me")
	if !errors.Is(err, store.ErrTooLate) || n != 0 {
		t.Fatalf("drain = %d, %v", n, err)
	}
	if j := f.get("t", "1"); j.Shard != "a" {
		t.Fatalf("the job is in %s", j.Shard)
	}
}

// TestAMoveThatWasCutOffIsFinished: whichever step was the last, the next run leaves the job in one shard.
func TestAMoveThatWasCutOffIsFinished(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	f.push("t", "copied", time.Hour)
	f.push("t", "changed", time.Hour)
	f.push("t", "removed", time.Hour)
	states("draining", "active")
	removed := f.get("t", "removed")
	f.restore(f.q.Shards.Buckets()[1], f.get("t", "copied"), f.get("t", "changed"), removed)
	later := time.Now().Add(2 * time.Hour)
	if _, err := f.q.Change(f.ctx, "t", "changed", store.Change{DueAt: &later}); err != nil { // in b, which is tried first
		t.Fatal(err)
	}
	if first, again := f.leave(f.b, removed), f.leave(f.b, removed); !first || !again {
		t.Fatalf("removed %t, and when the answer was lost, %t", first, again)
	}
	f.drain()
	var left store.JobCount
	if err := f.s.JobsForTest(f.ctx, &left); left.JobsForTest() != 0 || err != nil {
		t.Errorf("%d jobs are left, %v", left.JobsForTest(), err)
	}
	if j := f.get("t", "changed"); j.Shard != "b" || j.DueAt.Before(later) {
		t.Errorf("the change is lost: %+v", j)
	}
	for _, id := range []string{"copied", "removed"} {
		if j := f.get("t", id); j.Shard != "b" {
			t.Errorf("%s is in %s", id, j.Shard)
		}
	}
	if x := f.totals("t"); x.Delayed != 3 {
		t.Errorf("%d live", x.Delayed)
	}
}

// TestAMoveWaitsForTheReplicaOfDurableTopics: a job leaves its shard only when it has the topic's durability in the
// next one.
func TestAMoveWaitsForTheReplicaOfDurableTopics(t *testing.T) {
	r := startReplicated(t, shortTimeout)
	url, _ := startRedis(t)
	states := func(a, b string) {
		t.Helper()
		if err := r.q.Shards.Set([]store.ShardConfig{{Name: "a", URL: r.s.URLForTest(), State: a}, {Name: "b", URL: url, State: b}}); err != nil {
			t.Fatal(err)
		}
	}
	states("offline", "active")
	from := r.q.Shards.All()[0]
	if res := r.q.Push(r.ctx, store.Push{Topic: "replica", ID: "x", Delay: time.Hour}); !store.Stored(res.Err) {
		t.Fatalf("push to a shard without a replica: %+v", res)
	}
	states("active", "draining")
	r.stopReplica()
	if n, err := r.q.Drain(r.ctx, from, "me"); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "no replica has confirmed it") {
		t.Fatalf("moved %d jobs, %v", n, err)
	}
	if j := r.get("replica", "x"); j.Shard != "b" {
		t.Fatalf("the job is in shard %s", j.Shard)
	}
	r.contReplica()
	eventually(t, "the replica to confirm the copy", func() bool {
		n, err := r.q.Drain(r.ctx, from, "me")
		return n == 1 && err == nil
	})
	if j := r.get("replica", "x"); j.Shard != "a" {
		t.Fatalf("the job is in shard %s", j.Shard)
	}
}

// TestACountOfManyTopicsIsKept for a while, except for a shard that is drained, which may be removed once it is empty.
func TestACountOfManyTopicsIsKept(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	f.push("t", "one", time.Hour)
	jobs := func(want int64) {
		t.Helper()
		if h := f.s.Health(f.ctx); h.Jobs != want {
			t.Errorf("the shard has %d jobs; want %d", h.Jobs, want)
		}
	}
	counted := func(ago, took time.Duration) {
		f.s.CountedForTest().Store(store.CountForTest(7, time.Now().Add(-ago), took))
	}
	counted(0, time.Millisecond)
	jobs(1)
	counted(time.Second, time.Minute)
	jobs(7)
	counted(time.Hour, time.Minute)
	jobs(1)
	counted(time.Second, time.Minute)
	states("draining", "active")
	jobs(1)
}
