package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestATakenJobIsReadyForNobodyElse: a waiting worker is not woken for it, and another request does not get it.
func TestATakenJobIsReadyForNobodyElse(t *testing.T) {
	for name, delay := range map[string]time.Duration{"ready": 0, "delayed": 50 * time.Second, "far": time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.pullTopics("t")
			f.push("t", "a", delay)
			if _, err := f.b.Take(f.ctx, nil, []string{"t"}); err != nil { // a worker is waiting
				t.Fatal(err)
			}
			job, err := f.q.TakeByID(f.ctx, "t", "a")
			if err != nil || job.ID != "a" || job.Lease.Attempt != 1 || job.LeaseUntil.Sub(job.Lease.Taken) != time.Hour {
				t.Fatalf("took %+v, %v", job, err)
			}
			if again, err := f.q.TakeByID(f.ctx, "t", "a"); !errors.Is(err, store.ErrNotFound) {
				t.Fatalf("a worker has it, and others took %+v, %v", again, err)
			}
			if got := f.take(1, "t"); len(got) > 0 {
				t.Fatalf("it was taken twice: %+v", got)
			}
			if err := f.s.Redis().ZScore(f.ctx, store.Prefix(0)+"awaited", "t").Err(); delay > 0 && err != nil {
				t.Fatalf("waiting workers were woken for it: %v", err)
			}
			f.push("t", "b", 0)
			if got := f.take(2, "t"); len(got) != 1 || got[0].ID != "b" {
				t.Fatalf("took %+v", got)
			}
			f.ended(store.End{Lease: job.Lease, Verb: store.Done})
			f.stats("t", 0, 0, 1, 0)
		})
	}
}

// TestATakeByIDIgnoresLimits, and neither does a pause: a request by id is deliberate.
func TestATakeByIDIgnoresLimits(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Hour, Pull: true, Paused: true, MaxInFlight: 1})
	f.push("t", "a", 0)
	f.push("t", "b", 0)
	for _, id := range []string{"a", "b"} {
		if _, err := f.q.TakeByID(f.ctx, "t", id); err != nil {
			t.Fatal(id, err)
		}
	}
	f.stats("t", 0, 0, 2, 0)
}

func TestATakeByIDWithALostAnswerIsRepeated(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", time.Hour)
	token := store.NewToken()
	first, err := f.b.TakeByID(f.ctx, "t", "a", token)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.b.TakeByID(f.ctx, "t", "a", token); err != nil || again == nil || again.ID != first.ID ||
		!again.LeaseUntil.Equal(first.LeaseUntil) {
		t.Fatalf("the second call answers %+v, %v", again, err)
	}
	f.stats("t", 0, 0, 1, 0)
}

// TestATakeThatTheJournalCannotHoldIsTakenBack: without its line, a dead job would die again after a server was
// compared with the journals.
func TestATakeThatTheJournalCannotHoldIsTakenBack(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, store.Options{Changed: func(store.ChangeKind, []store.Job) error { return errors.New("the disk is full") }})
	f.pullTopics("t")
	f.push("t", "a", 0)
	var un *store.UnavailableError
	if job, err := f.q.TakeByID(f.ctx, "t", "a"); !errors.As(err, &un) || un.Reason != "journal" {
		t.Fatalf("took %+v, %v", job, err)
	}
	f.stats("t", 0, 1, 0, 0)
	if j := f.get("t", "a"); j.Attempts != 0 {
		t.Errorf("it counts %d attempts", j.Attempts)
	}
}

// TestATakenJobIsInNoUnopenedPage, whenever it is due: otherwise it would be delayed, and taken again, when its page is
// opened. It moves out of its page to a place for another time, which once was that of its own minute.
func TestATakenJobIsInNoUnopenedPage(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	for i := range 300 {
		id := fmt.Sprint(i)
		now := f.s.Redis().Time(f.ctx).Val()
		soon := now.Add(2*time.Minute + time.Millisecond) // two minutes ahead when it is taken, in some of the rounds
		if r := f.q.Push(f.ctx, store.Push{Topic: "t", ID: id, DueAt: soon}); r.Err != nil {
			t.Fatal(r.Err)
		}
		job, err := f.q.TakeByID(f.ctx, "t", id)
		if err != nil {
			t.Fatal(err)
		}
		if pages := f.s.Redis().ZCard(f.ctx, store.Prefix(0)+"m:t").Val(); pages > 0 {
			t.Fatalf("round %d: the running job is in a page that is to be opened", i)
		}
		f.ended(store.End{Lease: job.Lease, Verb: store.Done})
	}
}

// TestATakenJobLeavesNoTurn: a topic whose due jobs were taken by their ids has no more turns than another.
func TestATakenJobLeavesNoTurn(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.push("t", fmt.Sprint(i), 0)
		job, err := f.q.TakeByID(f.ctx, "t", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		f.ended(store.End{Lease: job.Lease, Verb: store.Done})
	}
	f.push("t", "last", 0)
	if n := f.s.Redis().ZCard(f.ctx, store.Prefix(0)+"q:normal").Val(); n != 1 {
		t.Errorf("its topic has %d turns", n)
	}
}
