package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/internal/store"
)

// awayWorld is a shard that lost everything while the second host was away.
func awayWorld(t *testing.T, before func(a, b *host)) (a, b *host, inA, inB *heartbeat, client *redis.Client) {
	t.Helper()
	url, client := startRedis(t)
	a, b, inA, inB = twoHosts(t, url)
	before(a, b)
	client.FlushAll(t.Context())
	inA.opts.Patience = time.Millisecond
	attendAll(t, inA)
	ready(t, a)
	return a, b, inA, inB, client
}

func isAbsent(err error) bool {
	un, ok := errors.AsType[*store.UnavailableError](err)
	return ok && un.Reason == store.Absent
}

// TestRecoveryKnowsWhatItCannotKnow: while a host is away, an id that is not there may be in its journal.
func TestRecoveryKnowsWhatItCannotKnow(t *testing.T) {
	a, b, _, inB, _ := awayWorld(t, func(a, b *host) {
		b.push(t, "of b", `"old"`, time.Hour)
		a.push(t, "of a", `"a"`, time.Hour)
	})
	ctx := t.Context()
	if _, err := a.queue.Get(ctx, "t", "of a"); err != nil {
		t.Errorf("of a: %v", err)
	}
	_, err := a.queue.Get(ctx, "t", "of b")
	errs := map[string]error{"get": err, "delete": a.queue.Delete(ctx, "t", "of b", nil)}
	errs["change"] = a.change(ctx, "t", "of b", store.Change{})
	_, errs["run"] = a.queue.RunNow(ctx, "t", "of b", nil)
	errs["push"] = a.queue.Push(ctx, store.Push{Topic: "t", ID: "of b", Body: []byte(`"new"`)}).Err
	errs["push refused if there"] = a.queue.Push(ctx,
		store.Push{Topic: "t", ID: "of b", Body: []byte(`"new"`), OnDuplicate: store.Refuse}).Err
	for what, err := range errs {
		if !isAbsent(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r := a.queue.Push(ctx, store.Push{Topic: "t", ID: "of a", Body: []byte(`"new"`)}); r.Err != nil || !r.Duplicate {
		t.Errorf("push of a known id: %+v", r)
	}
	if r := a.queue.Push(ctx, store.Push{Topic: "t", ID: store.NewID(), Fresh: true}); r.Err != nil {
		t.Errorf("push without an id: %v", r.Err)
	}
	attendAll(t, inB)
	ready(t, a, b)
	if j, err := a.queue.Get(ctx, "t", "of b"); err != nil || string(j.Body) != `"old"` {
		t.Errorf("of b, when it is back: %+v, %v", j, err)
	}
	if _, err := a.queue.Get(ctx, "t", "unknown"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown, when all are back: %v", err)
	}
}

// TestRecoveryAfterARestartKnowsWhatItCannotKnow: the process that finds the shard empty is new, and no line of its
// journal is about the shard.
func TestRecoveryAfterARestartKnowsWhatItCannotKnow(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	b.push(t, "of b", "1", time.Hour)
	attendAll(t, inA, inB)
	client.FlushAll(t.Context())
	restarted := a.heartbeatOf(t)
	restarted.opts.Patience = time.Millisecond
	attendAll(t, restarted)
	ready(t, a)
	if _, err := a.queue.Get(t.Context(), "t", "of b"); !isAbsent(err) {
		t.Errorf("of b: %v", err)
	}
}

// TestRecoveryByAHostThatIsBackOverridesNothing: what was accepted while it was away is newer than all that it knows.
func TestRecoveryByAHostThatIsBackOverridesNothing(t *testing.T) {
	a, b, _, inB, _ := awayWorld(t, func(a, b *host) {
		for _, id := range []string{"replaced", "called", "ran", "deleted", "changed"} {
			a.push(t, id, `"a"`, time.Hour)
			body := []byte(`"b"`)
			if err := b.change(t.Context(), "t", id, store.Change{Body: &body}); err != nil {
				t.Fatal(err)
			}
		}
		b.push(t, "of b", `"b"`, time.Hour)
		r := b.queue.Push(t.Context(), store.Push{Topic: "cleared", ID: "1", Body: []byte("1"), Delay: time.Hour})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	})
	ctx := t.Context()
	replace := func(id string) {
		t.Helper()
		p := store.Push{Topic: "t", ID: id, Body: []byte(`"new"`), OnDuplicate: store.Replace}
		if r := a.queue.Push(ctx, p); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	replace("of b")
	replace("called")
	if _, err := a.queue.RunNow(ctx, "t", "ran", nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, id, err := a.work(ctx, store.NewID(), store.Done); err != nil || id == "" {
			t.Fatalf("worked on %q, %v", id, err)
		}
	}
	if err := a.queue.Delete(ctx, "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	replace("replaced")
	if _, err := a.queue.DropTopic(ctx, "cleared"); err != nil {
		t.Fatal(err)
	}
	attendAll(t, inB)
	ready(t, a, b)
	for _, id := range []string{"of b", "called", "ran", "deleted"} {
		if j, err := a.queue.Get(ctx, "t", id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", id, j, err)
		}
	}
	if j, err := a.queue.Get(ctx, "cleared", "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of the cleared topic: %+v, %v", j, err)
	}
	for id, want := range map[string]string{"replaced": `"new"`, "changed": `"b"`} {
		if j, err := a.queue.Get(ctx, "t", id); err != nil || string(j.Body) != want {
			t.Errorf("%s: %+v, %v", id, j, err)
		}
	}
}

// seen is what a shard answers about a job.
func seen(t *rapid.T, h *host, id string) string {
	job, err := h.queue.Get(context.Background(), "t", id)
	switch {
	case errors.Is(err, store.ErrNotFound), isAbsent(err):
		return "gone"
	case err != nil:
		t.Fatalf("get %s: %v", id, err)
	}
	return fmt.Sprintf("dead %v: %s", job.State == store.Dead, job.Body)
}

// touch does something with a job, or several, through a host, and returns the ids of those that it changed.
func (w *world) touch(t *rapid.T, h *host) (ids []string) {
	w.n++
	id, body := w.id(t), fmt.Appendf(nil, `"touched %d"`, w.n)
	ctx := context.Background()
	var err error
	switch rapid.IntRange(0, 5).Draw(t, "touch") {
	case 0:
		p := store.Push{Topic: "t", ID: id, Body: body, OnDuplicate: store.Replace,
			Delay: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "delay")}
		err = h.queue.Push(ctx, p).Err
	case 1:
		err = h.change(ctx, "t", id, store.Change{Body: &body})
	case 2:
		err = h.queue.Delete(ctx, "t", id, nil)
	case 3:
		if _, err = h.queue.DropTopic(ctx, "t"); err == nil {
			return []string{"a", "b", "c", "d"}
		}
	default:
		v := rapid.SampledFrom([]store.Verb{store.Done, store.Retry, store.Bury}).Draw(t, "verdict")
		if _, id, err = h.work(ctx, fmt.Sprint("touch ", w.n), v); id == "" {
			return nil
		}
	}
	if err != nil {
		return nil
	}
	return []string{id}
}

// TestRecoveryByAHostThatIsBackInAnyHistory: a shard loses everything while one of two hosts is away. Whatever the
// other host changes meanwhile stays; every other job is as it was last answered.
func TestRecoveryByAHostThatIsBackInAnyHistory(t *testing.T) {
	url, client := startRedis(t)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		client.FlushAll(ctx)
		w := &world{hosts: [2]*host{newHost(t, url), newHost(t, url)}, jobs: map[string]*wanted{}}
		a, b := w.hosts[0].heartbeatOf(t), w.hosts[1].heartbeatOf(t)
		attendAll(rt, a)
		attendAll(rt, b, a)
		attendAll(rt, a, b)
		w.configure(rt)
		do := []func(*rapid.T){w.Push, w.Push, w.Replace, w.Change, w.Run, w.Delete, w.Attempt, w.Attempt, w.RedriveDead,
			w.DeleteDead, w.DropTopic, w.Deliver}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			do[rapid.IntRange(0, len(do)-1).Draw(rt, "operation")](rt)
		}
		client.FlushAll(ctx)
		a.opts.Patience = time.Millisecond
		attendAll(rt, a)
		ready(t, w.hosts[0])
		w.configure(rt)
		w.lose()
		touched := map[string]string{}
		for range rapid.IntRange(0, 8).Draw(rt, "touches") {
			for _, id := range w.touch(rt, w.hosts[0]) {
				touched[id] = seen(rt, w.hosts[0], id)
			}
		}
		attendAll(rt, b)
		ready(t, w.hosts[0], w.hosts[1])
		for id, want := range touched {
			if got := seen(rt, w.hosts[0], id); got != want {
				rt.Fatalf("%s is %s, was %s before the other host was back", id, got, want)
			}
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			if _, ok := touched[id]; ok {
				continue
			}
			want := "gone"
			if j := w.jobs[id]; j != nil {
				want = fmt.Sprintf("dead %v: %s", j.dead, j.push.Body)
			}
			if got := seen(rt, w.hosts[0], id); got != want {
				rt.Fatalf("%s is %s, want %s", id, got, want)
			}
		}
		_ = w.hosts[0].queue.Close()
		_ = w.hosts[1].queue.Close()
	})
}

// TestRecoveryByAForgottenHostThatIsBack: it attends again, and replays nothing, whatever happened since and however
// long it was away.
func TestRecoveryByAForgottenHostThatIsBack(t *testing.T) {
	for _, days := range []int{0, 8} {
		t.Run(fmt.Sprint(days, " days"), func(t *testing.T) {
			a, b, inA, inB, client := awayWorld(t, func(_, b *host) { b.push(t, "of b", `"old"`, time.Hour) })
			ctx := t.Context()
			if err := ForgetHost(ctx, a.queue, inB.host); err != nil {
				t.Fatal(err)
			}
			client.HSet(ctx, "wk:{0}:hosts", "at "+inB.host, time.Now().AddDate(0, 0, -days).UnixMilli())
			attendAll(t, inA)
			client.HDel(ctx, "wk:{0}:cmp", "run") // another server
			attendAll(t, inA)
			attendAll(t, inB)
			ready(t, a, b)
			attendAll(t, inB)
			if j, err := a.queue.Get(ctx, "t", "of b"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("of b: %+v, %v", j, err)
			}
		})
	}
}
