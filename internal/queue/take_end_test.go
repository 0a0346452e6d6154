package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestALeaseThatACallNamesTwiceEndsOnce: two workers may end the same lease, and their requests can share a call.
func TestALeaseThatACallNamesTwiceEndsOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	all := []Verb{Done, Release, Fail, Bury}
	for _, first := range all {
		for _, second := range append(all, Extend) {
			id := fmt.Sprint(first, "-", second)
			f.push("t", id, 0)
			lease := f.take(1, "t")[0].Lease
			done := f.q.End(f.ctx, []End{{Lease: lease, Verb: first}, {Lease: lease, Verb: second}})
			if done[0].Err != nil || !errors.Is(done[1].Err, ErrLease) || done[1].Revision != 0 {
				t.Errorf("%s: %+v", id, done)
			}
			if first != Done {
				f.ended(End{Ref: Ref{"t", id}, In: []State{done[0].State}, Verb: Done})
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
	for name, forge := range map[string]func(*Lease){
		"topic": func(x *Lease) { x.Topic = "u" }, "id": func(x *Lease) { x.ID = "b" },
		"token": func(x *Lease) { x.Token = "12345678" },
		"shard": func(x *Lease) { x.Shard = "other" },
	} {
		bad := *good
		forge(&bad)
		if d := f.end(End{Lease: &bad, Verb: Done}); !errors.Is(d.Err, ErrLease) {
			t.Errorf("forged %s: %+v", name, d)
		}
	}
	for _, text := range []string{"", "x", "****", strings.Repeat("A", 9000), "AQ", "AQFh"} {
		if l, err := ParseLease(text); !errors.Is(err, ErrLease) {
			t.Errorf("lease %.20q: %+v, %v", text, l, err)
		}
	}
	read, err := ParseLease(good.String())
	if err != nil || *read != *good {
		t.Fatalf("%+v was read as %+v, %v", good, read, err)
	}
	f.ended(End{Lease: read, Verb: Done})
}

func TestWhatBecomesOfALease(t *testing.T) {
	f := newFixture(t)
	f.setTopics(TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 2, Pull: true})
	f.push("t", "a", 0)
	one := func() Job {
		t.Helper()
		jobs := f.take(1, "t")
		if len(jobs) != 1 {
			t.Fatalf("took %d jobs", len(jobs))
		}
		return jobs[0]
	}
	d := f.ended(End{Lease: one().Lease, Verb: Release, Delay: time.Hour})
	if j := f.get("t", "a"); d.State != Delayed || j.State != Delayed || j.Attempts != 0 || !j.NextAt.Equal(d.At) {
		t.Fatalf("released for an hour: %+v, %+v", d, j)
	}
	if _, err := f.q.RunNow(f.ctx, "t", "a"); err != nil {
		t.Fatal(err)
	}
	f.ended(End{Lease: one().Lease, Verb: Release})
	j := one()
	if d := f.ended(End{Lease: j.Lease, Verb: Extend, Delay: time.Hour}); time.Until(d.At) < 50*time.Minute {
		t.Fatalf("extended until %v", d.At)
	}
	d = f.ended(End{Lease: j.Lease, Verb: Fail, Attempt: &Attempt{Error: "no stock"},
		Retry: []time.Duration{time.Minute, time.Hour}})
	got := f.get("t", "a")
	if d.State != Delayed || d.Attempt != 1 || got.Attempts != 1 || len(got.History) != 1 ||
		got.History[0].Error != "no stock" || got.History[0].N != 1 || time.Until(got.NextAt) > time.Minute {
		t.Fatalf("failed: %+v, %+v", d, got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a")
	if d := f.ended(End{Lease: one().Lease, Verb: Fail}); d.State != Dead || d.Attempt != 2 {
		t.Fatalf("failed for the last time: %+v", d)
	}
	if got := f.get("t", "a"); got.DeadReason != "attempts" || len(got.History) != 2 {
		t.Fatalf("dead: %+v", got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a")
	f.ended(End{Lease: one().Lease, Verb: Bury, Attempt: &Attempt{Error: "bad"}})
	if got := f.get("t", "a"); got.State != Dead || got.DeadReason != "buried" || got.History[2].Error != "bad" {
		t.Fatalf("buried: %+v", got)
	}
	f.balancedTopics("t")
}

func TestAnExpiredLeaseOfAWorkerCounts(t *testing.T) {
	f := newFixture(t)
	f.setTopics(TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 2, Pull: true},
		TopicConf{Name: "ever", TTR: time.Millisecond, Pull: true})
	f.push("t", "a", 0)
	expire := func() {
		if jobs := f.takeAs(TakeRequest{Topics: []string{"t"}, Max: 1, TTR: time.Millisecond}); len(jobs) != 1 {
			t.Fatalf("took %d jobs", len(jobs))
		}
		eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	}
	expire()
	if j := f.get("t", "a"); j.State != Ready || j.Attempts != 1 {
		t.Fatalf("after one lease: %+v", j)
	}
	expire()
	if j := f.get("t", "a"); j.State != Dead || j.DeadReason != "lease" {
		t.Fatalf("after two: %+v", j)
	}
	f.push("ever", "a", 0)
	for n := range 5 {
		if jobs := f.take(1, "ever"); len(jobs) != 1 || jobs[0].Lease.Attempt != n+1 {
			t.Fatalf("attempt %d: %+v", n+1, jobs)
		}
		eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	}
	jobs := f.takeAs(TakeRequest{Topics: []string{"ever"}, Max: 1, TTR: time.Minute})
	f.ended(End{Lease: jobs[0].Lease, Verb: Fail, Retry: []time.Duration{time.Hour}})
	if j := f.get("ever", "a"); j.State != Delayed || j.Attempts != 6 || len(j.History) != 6 || j.History[4].N != 5 {
		t.Fatalf("failed: %+v", j)
	}
	f.balancedTopics("t", "ever")
}

// TestJobsAreEndedByTheirIds, which older protocols need because they have no leases.
func TestJobsAreEndedByTheirIds(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	states := map[string]State{"delayed": Delayed, "ready": Ready, "running": Running, "dead": Dead}
	f.push("t", "running", 0)
	f.take(1, "t")
	f.push("t", "dead", 0)
	f.ended(End{Lease: f.take(1, "t")[0].Lease, Verb: Bury})
	f.push("t", "ready", 0)
	f.push("t", "delayed", time.Hour)
	for id, was := range states {
		if d := f.end(End{Ref: Ref{"t", id}, In: []State{Spooled}, Verb: Done}); !errors.Is(d.Err, ErrState) || d.Was != was {
			t.Errorf("%s in no state: %+v", id, d)
		}
		if was != Running {
			if d := f.end(End{Ref: Ref{"t", id}, Verb: Done}); !errors.Is(d.Err, ErrState) {
				t.Errorf("%s has no lease to end: %+v", id, d)
			}
		}
	}
	if d := f.end(End{Ref: Ref{"t", "none"}, Verb: Done}); !errors.Is(d.Err, ErrNotFound) {
		t.Errorf("an unknown job: %+v", d)
	}
	if d := f.ended(End{Ref: Ref{"t", "dead"}, In: []State{Dead}, Verb: Release,
		Delay: time.Hour}); d.State != Delayed {
		t.Errorf("kicked: %+v", d)
	}
	if d := f.ended(End{Ref: Ref{"t", "running"}, Verb: Bury}); d.State != Dead || d.Attempt != 1 {
		t.Errorf("buried by its id: %+v", d)
	}
	for id := range states {
		d := f.ended(End{Ref: Ref{"t", id}, In: []State{Delayed, Ready, Running, Dead}, Verb: Done})
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
	ready := []State{Ready}
	f.ended(End{Ref: Ref{"t", "second"}, In: ready, Verb: Release, AtHead: true})
	f.ended(End{Ref: Ref{"t", "late"}, In: ready, Verb: Release, Delay: time.Hour})
	f.ended(End{Ref: Ref{"t", "dead"}, In: ready, Verb: Bury})
	jobs := f.take(10, "t")
	if len(jobs) != 2 || jobs[0].ID != "second" || jobs[1].ID != "first" {
		t.Errorf("took %+v", jobs)
	}
	f.stats("t", 1, 0, 2, 1)
}

func TestALeaseOutlivesTheNameOfItsShard(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, Options{})
	f.pullTopics("t")
	f.push("t", "a", 0)
	lease := f.take(1, "t")[0].Lease
	renamed := []ShardConfig{{Name: "b", URL: url, State: "active", Former: "first a"}}
	if err := f.q.SetShards(f.ctx, renamed); err != nil {
		t.Fatal(err)
	}
	f.ended(End{Lease: lease, Verb: Done})
}

// TestAnEndedLeaseIsAcknowledgedWithoutItsLine in the journal: a worker that got an error would undo what it did, and
// its job is gone. What was done by id is refused: if the shard loses it, nothing tells that it was done.
func TestAnEndedLeaseIsAcknowledgedWithoutItsLine(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, Options{Ended: func([]Ended) error { return errors.New("no descriptor is left") }})
	f.pullTopics("t")
	for i := range 4 {
		f.push("t", fmt.Sprint(i), 0)
	}
	var list []End
	for i, l := range f.take(3, "t") {
		list = append(list, End{Lease: l.Lease, Verb: []Verb{Done, Fail, Bury}[i]})
	}
	list = append(list, End{Ref: Ref{"t", "3"}, In: []State{Ready}, Verb: Done})
	for i, d := range f.q.End(f.ctx, list) {
		if _, refused := errors.AsType[*UnavailableError](d.Err); refused != (i == 3) {
			t.Errorf("%s: %v", d.Verb, d.Err)
		}
	}
}
