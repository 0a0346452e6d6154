package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
)

// underTwoNames is a queue whose shards a and b are the same Redis; c is another one.
func underTwoNames(t *testing.T) (f *fixture, set func(stateOfA string, more ...store.ShardConfig)) {
	url, _ := startRedis(t)
	other, _ := startRedis(t)
	q := open(store.Options{})
	t.Cleanup(func() { _ = q.Close() })
	set = func(stateOfA string, more ...store.ShardConfig) {
		t.Helper()
		list := append([]store.ShardConfig{
			{Name: "a", URL: url, State: stateOfA, Identity: "ia"},
			{Name: "c", URL: other, State: "active", Identity: "ic"},
		}, more...)
		for i := range list {
			if list[i].URL == "" {
				list[i].URL = url
			}
		}
		if err := q.Shards.Set(list); err != nil {
			t.Fatal(err)
		}
	}
	set("active")
	return &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards.All()[0], b: q.Shards.Buckets()[0]}, set
}

// TestASecondNameOfAShardIsNotUsed: draining it would destroy the jobs of the first.
func TestASecondNameOfAShardIsNotUsed(t *testing.T) {
	f, set := underTwoNames(t)
	id := f.homeIs("a", "t")
	f.push("t", id, time.Hour)
	for _, state := range []string{"draining", "active"} {
		second := store.ShardConfig{Name: "b", State: state, Identity: "ib"}
		set("active", second)
		b := f.q.Shards.All()[1]
		if _, err := f.q.Drain(f.ctx, b, "me"); err == nil {
			t.Errorf("%s: it is drained", state)
		}
		if h := b.Health(f.ctx); h.Up || h.Jobs != 0 || h.Err != "it is the same Redis as shard a" {
			t.Errorf("%s: health = %+v", state, h)
		}
		set("draining", second)
		if _, err := f.q.Drain(f.ctx, f.q.Shards.All()[0], "me"); err != nil {
			t.Errorf("%s: %v", state, err)
		}
		if f.get("t", id).Shard == "b" {
			t.Errorf("%s: the job was stored under the second name", state)
		}
		set("active")
		f.push("t", id, time.Hour, func(p *store.Push) { p.OnDuplicate = store.Replace })
		f.stats("t", 1, 0, 0, 0)
	}
}

// TestAShardIdentifiesNewData: an empty Redis, and one whose identity belongs to no shard of the registry.
func TestAShardIdentifiesNewData(t *testing.T) {
	for _, was := range []string{"", "stranger"} {
		url, _ := startRedis(t)
		f := fixtureOn(t, url, store.Options{})
		if was != "" {
			f.s.Redis().Set(f.ctx, store.Prefix(0)+"shard", was, 0)
		}
		if err := f.q.Shards.Set([]store.ShardConfig{{Name: "a", URL: url, State: "active", Identity: "ia"}}); err != nil {
			t.Fatal(err)
		}
		s := f.q.Shards.All()[0]
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
		"earlier": func(f *fixture) { f.s.Redis().Del(f.ctx, store.Prefix(0)+"format") },
		"later":   func(f *fixture) { f.s.Redis().Set(f.ctx, store.Prefix(0)+"format", store.Format+"0", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.push("t", "x", time.Hour)
			change(f)
			if _, err := reconcile.Attend(f.ctx, f.b, reconcile.Attendance{Host: "host"}); err == nil {
				t.Error("a running process opens it")
			}
			before := f.s.Redis().Keys(f.ctx, "*").Val()
			q := open(store.Options{})
			defer q.Close()
			if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: f.s.URLForTest(), State: "active"}}); err != nil {
				t.Fatal(err)
			}
			s := q.Shards.All()[0]
			err := s.Check(f.ctx)
			if !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), "shard a: ") ||
				!strings.Contains(err.Error(), "start with an empty Redis") || strings.Contains(err.Error(), "\n") {
				t.Errorf("check: %v", err)
			}
			if _, err := q.Get(f.ctx, "t", "x"); !errors.Is(err, store.ErrFormat) {
				t.Errorf("get: %v", err)
			}
			if r := q.Push(f.ctx, store.Push{Topic: "t", ID: "y"}); !errors.Is(r.Err, store.ErrFormat) {
				t.Errorf("push: %+v", r)
			}
			if _, err := reconcile.Attend(f.ctx, s.Buckets()[0], reconcile.Attendance{Host: "host"}); !errors.Is(err, store.ErrFormat) {
				t.Errorf("attend: %v", err)
			}
			if h := s.Health(f.ctx); h.Up {
				t.Errorf("health: %+v", h)
			}
			if after := f.s.Redis().Keys(f.ctx, "*").Val(); len(after) != len(before) {
				t.Errorf("%d keys, %d before", len(after), len(before))
			}
			f.s.Redis().FlushAll(f.ctx)
			adopt(t, f.s.Redis())
			eventually(t, "the emptied Redis takes a push", func() bool {
				return q.Push(f.ctx, store.Push{Topic: "t", ID: "y"}).Err == nil
			})
		})
	}
}

// TestARenamedShardIsTheShardThatItWas: homes, jobs and leases are unchanged.
func TestARenamedShardIsTheShardThatItWas(t *testing.T) {
	url, _ := startRedis(t)
	other, _ := startRedis(t)
	f := fixtureOn(t, url, store.Options{})
	name := func(a string) {
		list := []store.ShardConfig{
			{Name: a, URL: url, State: "active", Identity: "ia"},
			{Name: "b", URL: other, State: "active", Identity: "ib"},
		}
		if err := f.q.Shards.Set(list); err != nil {
			t.Fatal(err)
		}
		for _, s := range f.q.Shards.All() {
			if s.Name() == a {
				f.s, f.b = s, s.Buckets()[0]
			}
		}
	}
	name("a")
	later, now := f.homeIs("a", "t"), f.homeIs("a", "u")
	f.push("t", later, time.Hour)
	f.push("u", now, 0)
	leases := f.reserve(1)
	name("z")
	if got := queue.ByWeight(f.q.Shards.All(), "t", later)[0].Name(); got != "z" {
		t.Errorf("the home of %s is %s now", later, got)
	}
	if held := f.settle(store.Done, nil, leases...); !held[0] {
		t.Error("the lease was lost with the old name")
	}
	f.gone("u", now)
	if r := f.push("t", later, time.Hour); !r.Duplicate || r.Job.Shard != "z" {
		t.Errorf("pushed again: %+v", r)
	}
}
