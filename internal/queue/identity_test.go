package queue

import (
	"errors"
	"strings"
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
			{Name: "a", URL: url, State: stateOfA, Identity: "ia"},
			{Name: "c", URL: other, State: "active", Identity: "ic"},
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
		if h := b.Health(f.ctx); h.Up || h.Jobs != 0 || h.Err != "it is the same Redis as shard a" {
			t.Errorf("%s: health = %+v", state, h)
		}
		set("draining", second)
		if _, err := f.q.Drain(f.ctx, f.q.Shards()[0], "me"); err != nil {
			t.Errorf("%s: %v", state, err)
		}
		if f.get("t", id).Shard == "b" {
			t.Errorf("%s: the job was stored under the second name", state)
		}
		set("active")
		f.push("t", id, time.Hour, func(p *Push) { p.OnDuplicate = Replace })
		f.stats("t", 1, 0, 0, 0)
	}
}

// TestAShardIdentifiesNewData: an empty Redis, and one whose identity belongs to no shard of the registry.
func TestAShardIdentifiesNewData(t *testing.T) {
	for _, was := range []string{"", "stranger"} {
		url, _ := startRedis(t)
		f := fixtureOn(t, url, Options{})
		if was != "" {
			f.s.client.Set(f.ctx, identityKey(0), was, 0)
		}
		if err := f.q.SetShards(
			f.ctx, []ShardConfig{{Name: "a", URL: url, State: "active", Identity: "ia"}}); err != nil {
			t.Fatal(err)
		}
		s := f.q.Shards()[0]
		if err := s.Check(f.ctx); err != nil {
			t.Fatal(err)
		}
		if is, err := s.Identity(f.ctx); is != "ia" || err != nil {
			t.Errorf("it is %q, %v", is, err)
		}
	}
}

// TestDataOfAnotherFormatIsRefused with the way out, and not touched: by every script, at the start and when the data
// comes later.
func TestDataOfAnotherFormatIsRefused(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"earlier": func(f *fixture) { f.s.client.Del(f.ctx, formatKey(0)) },
		"later":   func(f *fixture) { f.s.client.Set(f.ctx, formatKey(0), "4", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.push("t", "x", time.Hour)
			change(f)
			if _, err := f.s.Attend(f.ctx, 0, Attendance{Host: "host"}); err == nil {
				t.Error("a running process opens it")
			}
			before := f.s.client.Keys(f.ctx, "*").Val()
			q := open(Options{})
			defer q.Close()
			if err := q.SetShards(f.ctx, []ShardConfig{{Name: "a", URL: f.s.url, State: "active"}}); err != nil {
				t.Fatal(err)
			}
			s := q.Shards()[0]
			err := s.Check(f.ctx)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "shard a: ") ||
				!strings.Contains(err.Error(), "start with an empty Redis") || strings.Contains(err.Error(), "\n") {
				t.Errorf("check: %v", err)
			}
			if _, err := q.Get(f.ctx, "t", "x"); !errors.Is(err, ErrFormat) {
				t.Errorf("get: %v", err)
			}
			if r := q.Push(f.ctx, Push{Topic: "t", ID: "y"}); !errors.Is(r.Err, ErrFormat) {
				t.Errorf("push: %+v", r)
			}
			if _, err := s.Attend(f.ctx, 0, Attendance{Host: "host"}); !errors.Is(err, ErrFormat) {
				t.Errorf("attend: %v", err)
			}
			if h := s.Health(f.ctx); h.Up {
				t.Errorf("health: %+v", h)
			}
			if after := f.s.client.Keys(f.ctx, "*").Val(); len(after) != len(before) {
				t.Errorf("%d keys, %d before", len(after), len(before))
			}
			f.s.client.FlushAll(f.ctx)
			adopt(t, f.s.client)
			eventually(t, "the emptied Redis takes a push", func() bool {
				return q.Push(f.ctx, Push{Topic: "t", ID: "y"}).Err == nil
			})
		})
	}
}

// TestARenamedShardIsTheShardThatItWas: homes, jobs and leases are unchanged.
func TestARenamedShardIsTheShardThatItWas(t *testing.T) {
	url, _ := startRedis(t)
	other, _ := startRedis(t)
	f := fixtureOn(t, url, Options{})
	name := func(a string) {
		list := []ShardConfig{
			{Name: a, URL: url, State: "active", Identity: "ia"},
			{Name: "b", URL: other, State: "active", Identity: "ib"},
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
	if got := byWeight(f.q.Shards(), "t", later)[0].name; got != "z" {
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
