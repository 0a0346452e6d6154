package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestALeaseThatACallNamesTwiceEndsOnce: two workers may end the same lease, and their requests can share a call.
func TestALeaseThatACallNamesTwiceEndsOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	all := []store.Verb{store.Done, store.Release, store.Fail, store.Bury}
	for _, first := range all {
		for _, second := range append(all, store.Extend) {
			id := fmt.Sprint(first, "-", second)
			f.push("t", id, 0)
			lease := f.take(1, "t")[0].Lease
			done := f.q.End(f.ctx, []store.End{{Lease: lease, Verb: first}, {Lease: lease, Verb: second}})
			if done[0].Err != nil || !errors.Is(done[1].Err, store.ErrLease) || done[1].Revision != 0 {
				t.Errorf("%s: %+v", id, done)
			}
			if first != store.Done {
				f.ended(store.End{Ref: store.Ref{"t", id}, In: []store.State{done[0].State}, Verb: store.Done})
			}
			f.gone("t", id)
		}
	}
	f.balancedTopics("t")
	f.clean()
}

func TestALeaseThatIsForgedEndsNothing(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t", "u")
	f.push("t", "a", 0)
	f.push("t", "b", 0)
	f.push("u", "a", 0)
	good := f.take(1, "t")[0].Lease
	f.take(2, "t", "u")
	for name, forge := range map[string]func(*store.Lease){
		"topic": func(x *store.Lease) { x.Topic = "u" }, "id": func(x *store.Lease) { x.ID = "b" },
		"token": func(x *store.Lease) { x.Token = "12345678" },
		"shard": func(x *store.Lease) { x.Shard = "other" },
	} {
		bad := *good
		forge(&bad)
		if d := f.end(store.End{Lease: &bad, Verb: store.Done}); !errors.Is(d.Err, store.ErrLease) {
			t.Errorf("forged %s: %+v", name, d)
		}
	}
	for _, text := range []string{"", "x", "****", strings.Repeat("A", 9000), "AQ", "AQFh"} {
		if l, err := store.ParseLease(text); !errors.Is(err, store.ErrLease) {
			t.Errorf("lease %.20q: %+v, %v", text, l, err)
		}
	}
	read, err := store.ParseLease(good.String())
	if err != nil || *read != *good {
		t.Fatalf("%+v was read as %+v, %v", good, read, err)
	}
	f.ended(store.End{Lease: read, Verb: store.Done})
}

func TestWhatBecomesOfALease(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 2, Pull: true})
	f.push("t", "a", 0)
	one := func() store.Job {
		t.Helper()
		jobs := f.take(1, "t")
		if len(jobs) != 1 {
			t.Fatalf("took %d jobs", len(jobs))
		}
		return jobs[0]
	}
	d := f.ended(store.End{Lease: one().Lease, Verb: store.Release, Delay: time.Hour})
	if j := f.get("t", "a"); d.State != store.Delayed || j.State != store.Delayed || j.Attempts != 0 || !j.NextAt.Equal(d.At) {
		t.Fatalf("released for an hour: %+v, %+v", d, j)
	}
	if _, err := f.q.RunNow(f.ctx, "t", "a", nil); err != nil {
		t.Fatal(err)
	}
	f.ended(store.End{Lease: one().Lease, Verb: store.Release})
	j := one()
	if d := f.ended(store.End{Lease: j.Lease, Verb: store.Extend, Delay: time.Hour}); time.Until(d.At) < 50*time.Minute {
		t.Fatalf("extended until %v", d.At)
	}
	d = f.ended(store.End{Lease: j.Lease, Verb: store.Fail, Attempt: &store.Attempt{Error: "no stock"},
		Retry: []time.Duration{time.Minute, time.Hour}})
	got := f.get("t", "a")
	if d.State != store.Delayed || d.Attempt != 1 || got.Attempts != 1 || len(got.History) != 1 ||
		got.History[0].Error != "no stock" || got.History[0].N != 1 || time.Until(got.NextAt) > time.Minute {
		t.Fatalf("failed: %+v, %+v", d, got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a", nil)
	if d := f.ended(store.End{Lease: one().Lease, Verb: store.Fail}); d.State != store.Dead || d.Attempt != 2 {
		t.Fatalf("failed for the last time: %+v", d)
	}
	if got := f.get("t", "a"); got.DeadReason != "attempts" || len(got.History) != 2 {
		t.Fatalf("dead: %+v", got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a", nil)
	f.ended(store.End{Lease: one().Lease, Verb: store.Bury, Attempt: &store.Attempt{Error: "bad"}})
	if got := f.get("t", "a"); got.State != store.Dead || got.DeadReason != "buried" || got.History[2].Error != "bad" {
		t.Fatalf("buried: %+v", got)
	}
	f.balancedTopics("t")
}

func TestAnExpiredLeaseOfAWorkerCounts(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 2, Pull: true},
		store.TopicConf{Name: "ever", TTR: time.Millisecond, Pull: true})
	f.push("t", "a", 0)
	expire := func() {
		if jobs := f.takeAs(store.TakeRequest{Topics: []string{"t"}, Max: 1, TTR: time.Millisecond}); len(jobs) != 1 {
			t.Fatalf("took %d jobs", len(jobs))
		}
		eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	}
	expire()
	if j := f.get("t", "a"); j.State != store.Ready || j.Attempts != 1 {
		t.Fatalf("after one lease: %+v", j)
	}
	expire()
	if j := f.get("t", "a"); j.State != store.Dead || j.DeadReason != "lease" {
		t.Fatalf("after two: %+v", j)
	}
	f.push("ever", "a", 0)
	for n := range 5 {
		if jobs := f.take(1, "ever"); len(jobs) != 1 || jobs[0].Lease.Attempt != n+1 {
			t.Fatalf("attempt %d: %+v", n+1, jobs)
		}
		eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	}
	jobs := f.takeAs(store.TakeRequest{Topics: []string{"ever"}, Max: 1, TTR: time.Minute})
	f.ended(store.End{Lease: jobs[0].Lease, Verb: store.Fail, Retry: []time.Duration{time.Hour}})
	if j := f.get("ever", "a"); j.State != store.Delayed || j.Attempts != 6 || len(j.History) != 6 || j.History[4].N != 5 {
		t.Fatalf("failed: %+v", j)
	}
	f.balancedTopics("t", "ever")
}

// TestJobsAreEndedByTheirIds, which older protocols need because they have no leases.
func TestJobsAreEndedByTheirIds(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	states := map[string]store.State{"delayed": store.Delayed, "ready": store.Ready, "running": store.Running, "dead": store.Dead}
	f.push("t", "running", 0)
	f.take(1, "t")
	f.push("t", "dead", 0)
	f.ended(store.End{Lease: f.take(1, "t")[0].Lease, Verb: store.Bury})
	f.push("t", "ready", 0)
	f.push("t", "delayed", time.Hour)
	for id, was := range states {
		if d := f.end(store.End{Ref: store.Ref{"t", id}, In: []store.State{store.Spooled}, Verb: store.Done}); !errors.Is(d.Err, store.ErrState) || d.Was != was {
			t.Errorf("%s in no state: %+v", id, d)
		}
		if was != store.Running {
			if d := f.end(store.End{Ref: store.Ref{"t", id}, Verb: store.Done}); !errors.Is(d.Err, store.ErrState) {
				t.Errorf("%s has no lease to end: %+v", id, d)
			}
		}
	}
	if d := f.end(store.End{Ref: store.Ref{"t", "none"}, Verb: store.Done}); !errors.Is(d.Err, store.ErrNotFound) {
		t.Errorf("an unknown job: %+v", d)
	}
	if d := f.ended(store.End{Ref: store.Ref{"t", "dead"}, In: []store.State{store.Dead}, Verb: store.Release,
		Delay: time.Hour}); d.State != store.Delayed {
		t.Errorf("kicked: %+v", d)
	}
	if d := f.ended(store.End{Ref: store.Ref{"t", "running"}, Verb: store.Bury}); d.State != store.Dead || d.Attempt != 1 {
		t.Errorf("buried by its id: %+v", d)
	}
	for id := range states {
		d := f.ended(store.End{Ref: store.Ref{"t", id}, In: []store.State{store.Delayed, store.Ready, store.Running, store.Dead}, Verb: store.Done})
		if d.State != "" {
			t.Errorf("%s: %+v", id, d)
		}
	}
	f.balancedTopics("t")
	f.clean()
}

// TestAReadyJobThatIsEndedByItsIDIsTakenOnce: released to the front, delayed or buried, it is in its list at most once.
func TestAReadyJobThatIsEndedByItsIDIsTakenOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	for _, id := range []string{"first", "second", "late", "dead"} {
		f.push("t", id, 0)
	}
	ready := []store.State{store.Ready}
	f.ended(store.End{Ref: store.Ref{"t", "second"}, In: ready, Verb: store.Release, AtHead: true})
	f.ended(store.End{Ref: store.Ref{"t", "late"}, In: ready, Verb: store.Release, Delay: time.Hour})
	f.ended(store.End{Ref: store.Ref{"t", "dead"}, In: ready, Verb: store.Bury})
	jobs := f.take(10, "t")
	if len(jobs) != 2 || jobs[0].ID != "second" || jobs[1].ID != "first" {
		t.Errorf("took %+v", jobs)
	}
	f.stats("t", 1, 0, 2, 1)
}

func TestALeaseOutlivesTheNameOfItsShard(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, store.Options{})
	f.pullTopics("t")
	f.push("t", "a", 0)
	lease := f.take(1, "t")[0].Lease
	renamed := []store.ShardConfig{{Name: "b", URL: url, State: "active", Former: "first a"}}
	if err := f.q.Shards.Set(renamed); err != nil {
		t.Fatal(err)
	}
	f.ended(store.End{Lease: lease, Verb: store.Done})
}

// TestAnEndedLeaseIsAcknowledgedWithoutItsLine in the journal: a worker that got an error would undo what it did, and
// its job is gone. What was done by id is refused: if the shard loses it, nothing tells that it was done.
func TestAnEndedLeaseIsAcknowledgedWithoutItsLine(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, store.Options{Ended: func([]store.Ended) error { return errors.New("no descriptor is left") }})
	f.pullTopics("t")
	for i := range 4 {
		f.push("t", fmt.Sprint(i), 0)
	}
	var list []store.End
	for i, l := range f.take(3, "t") {
		list = append(list, store.End{Lease: l.Lease, Verb: []store.Verb{store.Done, store.Fail, store.Bury}[i]})
	}
	list = append(list, store.End{Ref: store.Ref{"t", "3"}, In: []store.State{store.Ready}, Verb: store.Done})
	for i, d := range f.q.End(f.ctx, list) {
		if _, refused := errors.AsType[*store.UnavailableError](d.Err); refused != (i == 3) {
			t.Errorf("%s: %v", d.Verb, d.Err)
		}
	}
}
