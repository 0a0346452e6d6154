package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// The tests in this file are bugs that other queues fixed in 2026, as cases for this one.

// TestAKnownIDIsDueSomewhere: a push that is answered as a duplicate names a job that will be called, whatever happened
// to the job before.
func TestAKnownIDIsDueSomewhere(t *testing.T) {
	f := newFixture(t)
	before := map[string]func(*store.Job){
		"released": func(l *store.Job) { f.settle(store.Release, nil, l) },
		"retried":  func(l *store.Job) { f.settle(store.Retry, nil, l) },
		"snoozed":  func(l *store.Job) { f.settle(store.Snooze, nil, l) },
		"lapsed":   func(*store.Job) {},
	}
	for what, happens := range before {
		f.push(what, "1", 0)
		happens(f.reserve(1, func(r *store.Reserve) { r.LeaseCap = time.Millisecond })[0])
		if r := f.push(what, "1", 0); !r.Duplicate {
			t.Errorf("%s: no duplicate", what)
		}
		eventually(t, "the job that was "+what+" to be leased", func() bool {
			f.advance()
			ls := f.reserve(1)
			return len(ls) == 1 && ls[0].Topic == what && f.settle(store.Done, nil, ls...)[0]
		})
	}
}

// TestTheEndOfALeaseLeavesALaterJobAlone: the id was pushed again while its first job ran.
func TestTheEndOfALeaseLeavesALaterJobAlone(t *testing.T) {
	for _, v := range []store.Verb{store.Done, store.Retry, store.Snooze, store.Bury, store.Release} {
		f := newFixture(t)
		f.push("t", "1", 0)
		first := f.reserve(1)
		if err := f.q.Delete(f.ctx, "t", "1", nil); err != nil {
			t.Fatal(err)
		}
		later := f.push("t", "1", time.Hour)
		if f.settle(v, nil, first...)[0] {
			t.Errorf("verdict %s: the first lease was still held", v)
		}
		if j := f.get("t", "1"); j.State != store.Delayed || j.Revision != later.Job.Revision {
			t.Errorf("verdict %s: the later job is %+v", v, j)
		}
	}
}

// TestEntriesWithoutAJobAreForgotten: no index keeps naming a job whose record was lost, and none is tried for ever.
func TestEntriesWithoutAJobAreForgotten(t *testing.T) {
	f := newFixture(t)
	f.listEarly()
	f.push("t", "running", 0)
	f.reserve(1, func(r *store.Reserve) { r.LeaseCap = time.Millisecond })
	f.push("t", "ready", 0)
	f.push("t", "soon", 50*time.Millisecond)
	f.push("t", "later", time.Hour)
	f.push("t", "expires", 0, func(p *store.Push) { p.TTL = 50 * time.Millisecond })
	f.must("DEL", "wk:{0}:j:t")
	eventually(t, "nothing to be left to do", func() bool {
		f.advance()
		if ls := f.reserve(10); len(ls) > 0 {
			t.Fatalf("%s was leased", ls[0].ID)
		}
		next, err := f.b.NextEvent(f.ctx)
		return err == nil && next.IsZero()
	})
	f.push("t", "next", 0) // whoever ends the topic's last job removes its name
	f.settle(store.Done, nil, f.reserve(1)...)
	f.clean()
}

// TestNoDelayIsRoundedDown: a job is not ready before its delay has passed, however its parts of milliseconds fall.
func TestNoDelayIsRoundedDown(t *testing.T) {
	f := newFixture(t)
	for i := range 200 {
		delay := time.Duration(i)*100*time.Microsecond + time.Duration(i)*time.Nanosecond
		before := time.Now()
		r := f.push("t", fmt.Sprint(i), delay)
		if due := r.Job.DueAt; due.Sub(before) < delay-time.Millisecond {
			t.Errorf("delayed by %s, due after %s", delay, due.Sub(before))
		}
	}
	seen := 0
	eventually(t, "all to be leased", func() bool {
		f.advance()
		leased := f.reserve(50)
		seen += len(leased)
		for _, l := range leased {
			if now := f.s.Redis().Time(f.ctx).Val(); now.Before(l.DueAt) {
				t.Errorf("%s was leased %s early", l.ID, l.DueAt.Sub(now))
			}
		}
		if len(leased) > 0 {
			f.settle(store.Done, nil, leased...)
		}
		return seen == 200
	})
}
