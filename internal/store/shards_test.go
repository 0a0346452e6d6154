package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestARefusedReplaceLeavesTheOldJob when it is in a shard that is not its home and no shard accepts the new one.
func TestARefusedReplaceLeavesTheOldJob(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	states("active", "active")
	id := f.homeIs("b", "t")
	states("active", "draining")
	f.push("t", id, time.Hour)
	states("active", "active")
	for _, s := range f.q.Shards.All() {
		s.Redis().ConfigSet(f.ctx, "maxmemory", "1")
	}
	replace := store.Push{Topic: "t", ID: id, Delay: time.Hour, Body: []byte(`"new"`), OnDuplicate: store.Replace}
	if r := f.q.Push(f.ctx, replace); r.Err == nil {
		t.Fatalf("full shards took %+v", r)
	}
	if j := f.get("t", id); j.Shard != "a" || string(j.Body) == `"new"` {
		t.Fatalf("after the refused replace: %+v", j)
	}
	for _, s := range f.q.Shards.All() {
		s.Redis().ConfigSet(f.ctx, "maxmemory", "0")
	}
	if r := f.q.Push(f.ctx, replace); r.Err != nil || !r.Duplicate || r.Job.Shard != "b" {
		t.Fatalf("replaced: %+v", r)
	}
	if j := f.get("t", id); j.Shard != "b" || string(j.Body) != `"new"` {
		t.Fatalf("after the replace: %+v", j)
	}
	f.stats("t", 1, 0, 0, 0)
}

// TestAReplaceInTheShardThatHoldsTheJob: its home is full, so the new job goes to the shard of the old one.
func TestAReplaceInTheShardThatHoldsTheJob(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	states("active", "active")
	id := f.homeIs("b", "t")
	states("active", "draining")
	f.push("t", id, time.Hour)
	states("active", "active")
	for _, s := range f.q.Shards.All() {
		if s.Name() == "b" {
			s.Redis().ConfigSet(f.ctx, "maxmemory", "1")
		}
	}
	r := f.q.Push(f.ctx, store.Push{Topic: "t", ID: id, Delay: time.Hour, Body: []byte(`"new"`), OnDuplicate: store.Replace})
	if r.Err != nil || !r.Duplicate || r.Job.Shard != "a" {
		t.Fatalf("replaced: %+v", r)
	}
	if j := f.get("t", id); j.Shard != "a" || string(j.Body) != `"new"` {
		t.Fatalf("after the replace: %+v", j)
	}
	f.stats("t", 1, 0, 0, 0)
}

// TestNothingIsAnsweredAsDoneWhileTheHomeOfAJobIsDown: the job that waits there would still be called unchanged.
func TestNothingIsAnsweredAsDoneWhileTheHomeOfAJobIsDown(t *testing.T) {
	urlA, _ := startRedis(t)
	urlB, _ := startRedis(t)
	var cut atomic.Bool
	pass := func([]byte) bool { return !cut.Load() }
	link := proxied(t, urlA, func() (request, answer func([]byte) bool) { return pass, pass })
	q := open(store.Options{})
	t.Cleanup(func() { _ = q.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: link, State: "active"}, {Name: "b", URL: urlB, State: "active"}}
	if err := q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards.All()[1], b: q.Shards.Buckets()[1]}
	home, away := f.homeIs("a", "t"), f.homeIs("b", "t")
	f.push("t", home, time.Hour)
	f.push("t", away, time.Hour)
	replace := func(id string) error {
		return q.Push(f.ctx,
			store.Push{Topic: "t", ID: id, Delay: time.Hour, Body: []byte(`"new"`), OnDuplicate: store.Replace}).Err
	}
	change := func(id string) error {
		body := []byte(`"new"`)
		_, err := q.Change(f.ctx, "t", id, store.Change{Body: &body})
		return err
	}
	run := func(id string) error { _, err := q.RunNow(f.ctx, "t", id, nil); return err }
	remove := func(id string) error { return q.Delete(f.ctx, "t", id, nil) }
	cut.Store(true)
	for name, do := range map[string]func(id string) error{
		"replace": replace, "change": change, "run": run, "delete": remove,
	} {
		var un *store.UnavailableError
		if err := do(home); !errors.As(err, &un) || un.RetryAfter <= 0 {
			t.Errorf("%s while its home is down = %v; want unavailable", name, err)
		}
	}
	// Pushed again, it is in the next shard; its home may have another job with the same id.
	f.push("t", home, time.Hour)
	for name, do := range map[string]func(id string) error{"replace": replace, "change": change, "delete": remove} {
		if err := do(home); err == nil {
			t.Errorf("%s of a copy succeeds while its home is down", name)
		}
	}
	if err := errors.Join(replace(away), change(away), remove(away)); err != nil {
		t.Errorf("a job whose home is up: %v", err)
	}
	cut.Store(false)
	eventually(t, "the link works again", func() bool { return q.Shards.All()[0].Up() })
	if err := replace(home); err != nil {
		t.Fatal(err)
	}
	if j := f.get("t", home); string(j.Body) != `"new"` || j.Shard != "a" {
		t.Errorf("replaced: %+v", j)
	}
	f.stats("t", 1, 0, 0, 0)
}

func TestAPushAlwaysFindsAnActiveShard(t *testing.T) {
	q := open(store.Options{})
	defer func() { _ = q.Close() }()
	urlA, _ := startRedis(t)
	urlB, _ := startRedis(t)
	set := func(configs ...store.ShardConfig) {
		if err := q.Shards.Set(configs); err != nil {
			t.Error(err)
		}
	}
	set(store.ShardConfig{Name: "a", URL: urlA, State: "active"})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for range 300 {
			set(store.ShardConfig{Name: "a", URL: urlA, State: "draining"},
				store.ShardConfig{Name: "b", URL: urlB, State: "active"})
			set(store.ShardConfig{Name: "a", URL: urlA, State: "active"},
				store.ShardConfig{Name: "b", URL: urlB, State: "draining"})
		}
	})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r := q.Push(t.Context(), store.Push{Topic: "t", ID: store.NewID(), Delay: time.Hour,
					Fresh: true}); r.Err != nil {
					t.Error(r.Err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestADownShardsJobsWaitAndNewOnesGoElsewhere(t *testing.T) {
	urlA, server := startRedis(t)
	urlB, _ := startRedis(t)
	q := open(store.Options{})
	defer func() { _ = q.Close() }()
	ctx := t.Context()
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: urlA, State: "active"}, {Name: "b", URL: urlB, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for i := range 200 {
		r := q.Push(ctx, store.Push{Topic: "t", ID: fmt.Sprint(i), Delay: time.Hour})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		on[r.Job.Shard]++
	}
	if on["a"] < 60 || on["b"] < 60 {
		t.Fatalf("spread %v", on)
	}
	server.Kill9()
	for i := range 50 {
		r := q.Push(ctx, store.Push{Topic: "t", ID: fmt.Sprint("later", i), Delay: time.Hour})
		if r.Err != nil || r.Job.Shard != "b" {
			t.Fatalf("push with a down: %+v", r)
		}
	}
	if r := q.Push(ctx, store.Push{Topic: "t", ID: "later0"}); !r.Duplicate {
		t.Fatalf("a duplicate outside its home: %+v", r)
	}
	var un *store.UnavailableError
	if _, err := q.Get(ctx, "t", "nobody"); !errors.As(err, &un) {
		t.Fatalf("get of an unknown job with a shard down: %v", err)
	}
	if j, err := q.Get(ctx, "t", "later7"); err != nil || j.Shard != "b" {
		t.Fatalf("get = %+v, %v", j, err)
	}
}

// TestAShardThatIsReplacedStaysOpenForWhatIsUnderWay, so that outcomes of calls are settled before their leases expire.
func TestAShardThatIsReplacedStaysOpenForWhatIsUnderWay(t *testing.T) {
	f := newFixture(t)
	f.push("t", "1", 0)
	jobs := f.reserve(1)
	elsewhere, _ := startRedis(t)
	if err := f.q.Shards.Set([]store.ShardConfig{{Name: "a", URL: elsewhere, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	if held := f.settle(store.Done, nil, jobs...); !held[0] {
		t.Error("the outcome was refused")
	}
}

// TestThePinnedShardTakesAllJobsOfATopic while it is active: they are delivered in the order of their pushes.
func TestThePinnedShardTakesAllJobsOfATopic(t *testing.T) {
	f, states := twoShards(t, store.Options{Pinned: func(topic string) string {
		return map[string]string{"pinned": "b", "lost": "none"}[topic]
	}})
	states("active", "active")
	on := map[string]int{}
	for i := range 40 {
		for _, topic := range []string{"pinned", "spread", "lost"} {
			f.push(topic, fmt.Sprint(i), time.Hour)
			on[topic+" "+f.get(topic, fmt.Sprint(i)).Shard]++
		}
	}
	if on["pinned b"] != 40 || on["spread a"] == 0 || on["spread b"] == 0 || on["lost a"] == 0 || on["lost b"] == 0 {
		t.Errorf("the jobs are on %v", on)
	}
	states("active", "draining")
	f.push("pinned", "later", time.Hour)
	if shard := f.get("pinned", "later").Shard; shard != "a" {
		t.Errorf("shard %s accepted a job while it drains", shard)
	}
}
