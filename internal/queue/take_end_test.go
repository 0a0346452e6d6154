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
	all := []Verb{Ack, GiveBack, Untake, Fail, BuryLeased}
	for _, first := range all {
		for _, second := range append(all, ExtendLeased) {
			id := fmt.Sprint(first, "-", second)
			f.push("t", id, 0)
			lease := f.take(1, "t")[0].Lease
			done := f.q.End(f.ctx, []Ending{{Lease: lease, Verb: first}, {Lease: lease, Verb: second}})
			if done[0].Err != nil || !errors.Is(done[1].Err, ErrLease) || done[1].Revision != 0 {
				t.Errorf("%s: %+v", id, done)
			}
			if first != Ack {
				f.ended(Ending{Ref: Ref{"t", id}, In: []State{done[0].State}, Verb: Ack})
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
	good, err := parseTicket(f.take(1, "t")[0].Lease)
	if err != nil {
		t.Fatal(err)
	}
	f.take(2, "t", "u")
	for name, forge := range map[string]func(*ticket){
		"topic": func(x *ticket) { x.topic = "u" }, "id": func(x *ticket) { x.id = "b" },
		"token": func(x *ticket) { x.token = "12345678" },
		"shard": func(x *ticket) { x.shard = "other" },
	} {
		bad := good
		forge(&bad)
		if d := f.end(Ending{Lease: bad.String()}); !errors.Is(d.Err, ErrLease) {
			t.Errorf("forged %s: %+v", name, d)
		}
	}
	for _, text := range []string{"", "x", "****", strings.Repeat("A", 9000), "AQ", "AQFh"} {
		if d := f.end(Ending{Lease: text}); text != "" && !errors.Is(d.Err, ErrLease) {
			t.Errorf("lease %.20q: %+v", text, d)
		}
	}
	f.ended(Ending{Lease: good.String()})
}

func TestWhatBecomesOfALease(t *testing.T) {
	f := newFixture(t)
	f.setTopics(TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 2, Pull: true})
	f.push("t", "a", 0)
	one := func() Leased {
		t.Helper()
		jobs := f.take(1, "t")
		if len(jobs) != 1 {
			t.Fatalf("took %d jobs", len(jobs))
		}
		return jobs[0]
	}
	d := f.ended(Ending{Lease: one().Lease, Verb: GiveBack, Delay: time.Hour})
	if j := f.get("t", "a"); d.State != Delayed || j.State != Delayed || j.Attempts != 0 || !j.NextAt.Equal(d.At) {
		t.Fatalf("released for an hour: %+v, %+v", d, j)
	}
	if _, err := f.q.RunNow(f.ctx, "t", "a"); err != nil {
		t.Fatal(err)
	}
	f.ended(Ending{Lease: one().Lease, Verb: GiveBack})
	j := one()
	if d := f.ended(Ending{Lease: j.Lease, Verb: ExtendLeased, TTR: time.Hour}); time.Until(d.At) < 50*time.Minute {
		t.Fatalf("extended until %v", d.At)
	}
	d = f.ended(Ending{Lease: j.Lease, Verb: Fail, Error: "no stock", Retry: []time.Duration{time.Minute, time.Hour}})
	got := f.get("t", "a")
	if d.State != Delayed || d.Attempt != 1 || got.Attempts != 1 || len(got.History) != 1 ||
		got.History[0].Error != "no stock" || got.History[0].N != 1 || time.Until(got.NextAt) > time.Minute {
		t.Fatalf("failed: %+v, %+v", d, got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a")
	if d := f.ended(Ending{Lease: one().Lease, Verb: Fail}); d.State != Dead || d.Attempt != 2 {
		t.Fatalf("failed for the last time: %+v", d)
	}
	if got := f.get("t", "a"); got.DeadReason != "attempts" || len(got.History) != 2 {
		t.Fatalf("dead: %+v", got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a")
	f.ended(Ending{Lease: one().Lease, Verb: BuryLeased, Error: "bad"})
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
		if jobs := f.take(1, "ever"); len(jobs) != 1 || jobs[0].Attempt != n+1 {
			t.Fatalf("attempt %d: %+v", n+1, jobs)
		}
		eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	}
	jobs := f.takeAs(TakeRequest{Topics: []string{"ever"}, Max: 1, TTR: time.Minute})
	f.ended(Ending{Lease: jobs[0].Lease, Verb: Fail, Retry: []time.Duration{time.Hour}})
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
	f.ended(Ending{Lease: f.take(1, "t")[0].Lease, Verb: BuryLeased})
	f.push("t", "ready", 0)
	f.push("t", "delayed", time.Hour)
	for id, was := range states {
		if d := f.end(Ending{Ref: Ref{"t", id}, In: []State{Spooled}}); !errors.Is(d.Err, ErrState) || d.Was != was {
			t.Errorf("%s in no state: %+v", id, d)
		}
		if was != Running {
			if d := f.end(Ending{Ref: Ref{"t", id}}); !errors.Is(d.Err, ErrState) {
				t.Errorf("%s has no lease to end: %+v", id, d)
			}
		}
	}
	if d := f.end(Ending{Ref: Ref{"t", "none"}}); !errors.Is(d.Err, ErrNotFound) {
		t.Errorf("an unknown job: %+v", d)
	}
	if d := f.ended(Ending{Ref: Ref{"t", "dead"}, In: []State{Dead}, Verb: GiveBack,
		Delay: time.Hour}); d.State != Delayed {
		t.Errorf("kicked: %+v", d)
	}
	if d := f.ended(Ending{Ref: Ref{"t", "running"}, Verb: BuryLeased}); d.State != Dead || d.Attempt != 1 {
		t.Errorf("buried by its id: %+v", d)
	}
	for id := range states {
		d := f.ended(Ending{Ref: Ref{"t", id}, In: []State{Delayed, Ready, Running, Dead}})
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
	f.ended(Ending{Ref: Ref{"t", "second"}, In: ready, Verb: Untake})
	f.ended(Ending{Ref: Ref{"t", "late"}, In: ready, Verb: GiveBack, Delay: time.Hour})
	f.ended(Ending{Ref: Ref{"t", "dead"}, In: ready, Verb: BuryLeased})
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
	f.ended(Ending{Lease: lease})
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
	var list []Ending
	for i, l := range f.take(3, "t") {
		list = append(list, Ending{Lease: l.Lease, Verb: []Verb{Ack, Fail, BuryLeased}[i]})
	}
	list = append(list, Ending{Ref: Ref{"t", "3"}, In: []State{Ready}, Verb: Ack})
	for i, d := range f.q.End(f.ctx, list) {
		if _, refused := errors.AsType[*UnavailableError](d.Err); refused != (i == 3) {
			t.Errorf("%s: %v", d.Verb, d.Err)
		}
	}
}
