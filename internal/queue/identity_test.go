package queue

import (
	"errors"
	"testing"
	"time"
)

// underTwoNames is a queue whose shards a and b are the same Redis; c is another one.
func underTwoNames(t *testing.T) (f *fixture, set func(stateOfA string, more ...ShardConfig)) {
	url, _ := startRedis(t)
	other, _ := startRedis(t)
	q := open(Options{})
	t.Cleanup(func() { _ = q.Close() })
	set = func(stateOfA string, more ...ShardConfig) {
		t.Helper()
		list := append([]ShardConfig{
			{Name: "a", URL: url, State: stateOfA, Identity: "ia"}, {Name: "c", URL: other, State: "active", Identity: "ic"},
		}, more...)
		for i := range list {
			if list[i].URL == "" {
				list[i].URL = url
			}
		}
		if err := q.SetShards(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	set("active")
	return &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards()[0]}, set
}

// TestASecondNameOfAShardIsNotUsed: draining it would destroy the jobs of the first.
func TestASecondNameOfAShardIsNotUsed(t *testing.T) {
	f, set := underTwoNames(t)
	id := f.homeIs("a", "t")
	f.push("t", id, time.Hour)
	for _, state := range []string{"draining", "active"} {
		second := ShardConfig{Name: "b", State: state, Identity: "ib"}
		set("active", second)
		b := f.q.Shards()[1]
		if _, err := f.q.Drain(f.ctx, b, "me"); err == nil {
			t.Errorf("%s: it is drained", state)
		}
		if h := b.Health(f.ctx); h.SameAs != "a" || h.Jobs != 0 {
			t.Errorf("%s: health = %+v", state, h)
		}
		set("draining", second)
		_, _ = f.q.Drain(f.ctx, f.q.Shards()[0], "me") // refused until the second name is known to be a duplicate
		if _, err := f.q.Drain(f.ctx, f.q.Shards()[0], "me"); err != nil {
			t.Errorf("%s: %v", state, err)
		}
		if f.get("t", id).Shard == "b" {
			t.Errorf("%s: the job was stored under the second name", state)
		}
		f.stats("t", 1, 0, 0, 0)
		if _, err := f.q.Get(f.ctx, "t", "none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: a second name blocks an answer of other shards: %v", state, err)
		}
		f.push("t", id, time.Hour, func(p *Push) { p.OnDuplicate = Replace })
		f.stats("t", 1, 0, 0, 0)
		if err := f.s.client.Del(f.ctx, identityKey()).Err(); err != nil { // as after FLUSHALL
			t.Fatal(err)
		}
		if err := b.Identify(f.ctx); err == nil {
			t.Errorf("%s: the second name took over a flushed shard", state)
		}
		if err := f.q.Shards()[0].Identify(f.ctx); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
	set("active") // its name is gone
	f.stats("t", 1, 0, 0, 0)
}

// TestAFlushedShardIsItselfAgain, and a Redis that belongs to no shard of the registry is adopted by the shard that
// uses it.
func TestAFlushedShardIsItselfAgain(t *testing.T) {
	f, set := underTwoNames(t)
	for _, lost := range []func() error{
		func() error { return f.s.client.FlushAll(f.ctx).Err() },
		func() error { return f.s.client.Set(f.ctx, identityKey(), "stranger", 0).Err() },
	} {
		if err := lost(); err != nil {
			t.Fatal(err)
		}
		if err := f.s.Identify(f.ctx); err != nil {
			t.Fatal(err)
		}
		if is, err := f.s.Identity(f.ctx); is != "ia" || err != nil {
			t.Errorf("it is %q, %v", is, err)
		}
	}
	set("active", ShardConfig{Name: "b", State: "offline", Identity: "ib"}) // a second name that is offline does not count
	f.push("t", "x", time.Hour)
}

// TestARenamedShardIsTheShardThatItWas: homes, jobs and leases are unchanged.
func TestARenamedShardIsTheShardThatItWas(t *testing.T) {
	url, _ := startRedis(t)
	other, _ := startRedis(t)
	f := fixtureOn(t, url, Options{})
	name := func(a string) {
		list := []ShardConfig{
			{Name: a, URL: url, State: "active", Identity: "ia"}, {Name: "b", URL: other, State: "active", Identity: "ib"},
		}
		if err := f.q.SetShards(f.ctx, list); err != nil {
			t.Fatal(err)
		}
		for _, s := range f.q.Shards() {
			if s.name == a {
				f.s = s
			}
		}
	}
	name("a")
	later, now := f.homeIs("a", "t"), f.homeIs("a", "u")
	f.push("t", later, time.Hour)
	f.push("u", now, 0)
	leases := f.reserve(1)
	name("z")
	if got := f.q.order("t", later)[0].name; got != "z" {
		t.Errorf("the home of %s is %s now", later, got)
	}
	if held := f.settle(Done, nil, leases...); !held[0] {
		t.Error("the lease was lost with the old name")
	}
	f.gone("u", now)
	if r := f.push("t", later, time.Hour); !r.Duplicate || r.Job.Shard != "z" {
		t.Errorf("pushed again: %+v", r)
	}
}
