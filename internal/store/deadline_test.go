package store_test

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// stopping is a fixture with two shards, one of which can be suspended during a call: it reads the request when it
// resumes, long after the caller gave up.
func stopping(t *testing.T) (f *fixture, stopped func(do func())) {
	urlA, server := startRedis(t)
	urlB, _ := startRedis(t)
	q := open(store.Options{Timeout: 3 * time.Second})
	t.Cleanup(func() { _ = q.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: urlA, State: "active"}, {Name: "b", URL: urlB, State: "active"}}
	if err := q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	f = &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards.All()[0], b: q.Shards.Buckets()[0]}
	signal := server.Signal
	return f, func(do func()) {
		t.Helper()
		signal(syscall.SIGSTOP)
		do()
		signal(syscall.SIGCONT)
		eventually(t, "the shard answers", f.s.Up)
		for range 3 { // two rounds of its event loop: a connection is accepted in one and read in the next
			f.s.Redis().Ping(f.ctx)
		}
	}
}

// TestWhatACallerGaveUpOnIsNotDoneLater: by then, a push is in another shard, and other calls have failed.
func TestWhatACallerGaveUpOnIsNotDoneLater(t *testing.T) {
	f, stopped := stopping(t)
	jobs := map[string]string{} // ids by topic
	for _, topic := range []string{"change", "run", "delete", "drop", "end"} {
		jobs[topic] = f.push(topic, f.homeIs("a", topic), time.Hour).Job.ID
	}
	f.push("dead", f.homeIs("a", "dead"), 0)
	f.settle(store.Bury, nil, f.reserve(1)...)
	f.loadScripts() // otherwise the late request fails for an unknown script
	id, pushed := f.homeIs("a", "push"), store.Result{}
	body := []byte(`"late"`)
	for name, do := range map[string]func() error{
		"push": func() error {
			pushed = f.q.Push(f.ctx, store.Push{Topic: "push", ID: id, Delay: time.Hour, Priority: store.Normal})
			return &store.UnavailableError{Err: pushed.Err}
		},
		"change": func() error {
			_, err := f.q.Change(f.ctx, "change", jobs["change"], store.Change{Body: &body})
			return err
		},
		"run":    func() error { _, err := f.q.RunNow(f.ctx, "run", jobs["run"], nil); return err },
		"delete": func() error { return f.q.Delete(f.ctx, "delete", jobs["delete"], nil) },
		"drop":   func() error { _, err := f.q.DropTopic(f.ctx, "drop"); return err },
		"end": func() error {
			return f.q.End(f.ctx, []store.End{{Ref: store.Ref{"end", jobs["end"]}, In: []store.State{store.Delayed}, Verb: store.Done}})[0].Err
		},
		"dead": func() error {
			_, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "dead", Limit: 1})
			return err
		},
	} {
		stopped(func() {
			var un *store.UnavailableError
			if err := do(); !errors.As(err, &un) {
				t.Errorf("%s while the shard is suspended = %v; want unavailable", name, err)
			}
		})
	}
	for topic, id := range jobs {
		if j, err := f.q.Get(f.ctx, topic, id); err != nil || j.State != store.Delayed || bytes.Equal(j.Body, body) {
			t.Errorf("%s was done later: %+v, %v", topic, j, err)
		}
	}
	if n, err := f.q.Stats(f.ctx, []string{"dead"}); err != nil || n["dead"].Dead != 1 {
		t.Errorf("the dead job was deleted later: %+v, %v", n, err)
	}
	if pushed.Err != nil || pushed.Job.Shard != "b" {
		t.Errorf("pushed: %+v", pushed)
	}
	if j, err := read(f.ctx, f.s, "push", id); err != nil || j != nil {
		t.Errorf("the push left a second job: %+v, %v", j, err)
	}
}

// TestACallersDeadlineIsNoOutage: other callers may be ready to wait.
func TestACallersDeadlineIsNoOutage(t *testing.T) {
	url, server := startRedis(t)
	f := fixtureOn(t, url, store.Options{})
	f.push("t", "a", time.Hour)
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	if j, err := f.q.Get(ctx, "t", "a"); err == nil {
		t.Fatalf("got %+v", j)
	}
	if !f.s.Up() {
		t.Error("the shard counts as down")
	}
}

// TestAJumpOfAServersClockRefusesNoPush, forwards or backwards.
func TestAJumpOfAServersClockRefusesNoPush(t *testing.T) {
	f := startReplicated(t, wait.Limit)
	id := 0
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		for d := range store.Durabilities {
			clock := f.b.ClockForTest().Load()
			if clock == nil {
				clock = store.ClockForTest(0, time.Time{})
			}
			f.b.ClockForTest().Store(store.ClockForTest(clock.ServerForTest()-jump.Milliseconds(), time.Now()))
			id++
			push := []store.Push{{Topic: "t", ID: string(rune('a' + id)), Delay: time.Hour, Priority: store.Normal}}
			if r, _ := f.b.StoreAllForTest(d, push, time.Minute); r[0].Err != nil {
				t.Errorf("the clock jumped by %s, durability %s: %v", jump, d, r[0].Err)
			}
		}
	}
}

// TestAReserveThatComesTooLateLeasesNoJob: its caller would not know of the lease, whose end would count an attempt
// that nobody made.
func TestAReserveThatComesTooLateLeasesNoJob(t *testing.T) {
	f, stopped := stopping(t)
	f.pullTopics("pull")
	for _, topic := range []string{"push", "pull"} {
		f.push(topic, f.homeIs("a", topic), 0)
	}
	f.loadScripts() // otherwise the late request fails for an unknown script
	stopped(func() {
		if _, err := f.b.Reserve(f.ctx, store.Reserve{Worker: "w", Token: "w1", Max: 1, Pattern: store.TakePattern}); err == nil {
			t.Error("a suspended shard answered")
		}
	})
	take := f.takeOf("pull", "w2")
	stopped(func() {
		if _, err := f.b.Call(f.ctx, store.TakeScript, take.ArgsForTest()...); err == nil {
			t.Error("a suspended shard answered")
		}
	})
	n, err := f.q.Stats(f.ctx, []string{"push", "pull"})
	if err != nil || n["push"].Ready != 1 || n["pull"].Ready != 1 {
		t.Errorf("after the shard resumed: %+v, %v", n, err)
	}
}
