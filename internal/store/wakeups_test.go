package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func TestWakeUpsTellTimersAndDispatchers(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	wake := f.s.Wakeups(ctx, 0)
	if w := <-wake; w.Kind != store.WakeReconnect {
		t.Fatalf("first %+v", w)
	}
	j := f.push("t", "a", time.Minute)
	w := <-wake
	if early := j.Job.DueAt.Sub(w.Event); w.Kind != store.WakeTimer || early < 0 || early > time.Millisecond {
		t.Fatalf("after a delayed push %+v; the job is due at %s", w, j.Job.DueAt)
	}
	if in := j.Job.DueAt.Sub(w.Sent); in > time.Minute || in <= time.Minute-time.Millisecond {
		t.Fatalf("the wake-up was sent %s before the job is due", in)
	}
	f.push("t", "later", time.Hour) // publishes no wake-up
	f.reserve(1)                    // finds nothing: a dispatcher waits
	f.push("t", "b", 0)
	if w := <-wake; w.Kind != store.WakeDispatcher {
		t.Fatalf("after a push that is ready %+v", w)
	}
}

func TestAnnouncementsReachEveryQueue(t *testing.T) {
	f := newFixture(t)
	told := make(chan struct{}, 10)
	other := open(store.Options{Announced: func() { told <- struct{}{} }})
	t.Cleanup(func() { _ = other.Close() })
	if err := other.SetShards(f.ctx, []store.ShardConfig{{Name: f.s.Name(), URL: f.s.URLForTest(), State: "active"}}); err != nil {
		t.Fatal(err)
	}
	<-told // it has connected
	f.q.Announce(f.ctx, 7)
	<-told
}

func TestPollsSeeWorkAndSetNoIdleKey(t *testing.T) {
	f := newFixture(t)
	look := func(when string, nothing, nothingReady bool) {
		t.Helper()
		if next, err := f.s.NextEvent(f.ctx, 0); err != nil || next.IsZero() != nothing {
			t.Errorf("%s: the next event: %v, %v", when, next, err)
		}
		if got, err := f.s.NothingReady(f.ctx, 0); err != nil || got != nothingReady {
			t.Errorf("%s: nothing is ready: %v, %v", when, got, err)
		}
	}
	look("at first", true, false)
	f.reserve(1)
	look("after a reserve", true, true)
	f.push("t", "later", time.Hour)
	look("with a delayed job", false, true)
	for _, p := range []store.Priority{store.High, store.Normal, store.Low} {
		f.flush()
		if r := f.q.Push(f.ctx, store.Push{Topic: "t", ID: "now", Body: []byte("1"), Priority: p}); r.Err != nil {
			t.Fatal(r.Err)
		}
		look("with a job that is ready", true, false)
		l := f.reserve(1)[0]
		look("after a reserve that found all it asked for", false, false)
		f.reserve(1)
		look("with a job under a lease", false, true)
		f.settle(store.Done, nil, l)
		look("when it is done", true, true)
		f.s.Redis().Del(f.ctx, store.Prefix(0)+"idle")
		look("without the idle key", true, false)
		if n := f.s.Redis().Exists(f.ctx, store.Prefix(0)+"idle").Val(); n != 0 {
			t.Error("a poll set the key")
		}
	}
}
