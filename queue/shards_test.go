package queue

import (
	"fmt"
	"testing"
	"time"
)

// homeIs finds an id whose home is a shard.
func (f *fixture) homeIs(shard, topic string) string {
	f.Helper()
	for i := 0; ; i++ {
		if id := fmt.Sprint("job", i); f.q.order(topic, id)[0].name == shard {
			return id
		}
	}
}

// TestARefusedReplaceLeavesTheOldJob: it lives in a shard that is not its home, and no shard takes the new one.
func TestARefusedReplaceLeavesTheOldJob(t *testing.T) {
	f, states := twoShards(t, Options{})
	states("active", "active")
	id := f.homeIs("b", "t")
	states("active", "draining")
	f.push("t", id, time.Hour)
	states("active", "active")
	for _, s := range f.q.Shards() {
		s.client.ConfigSet(f.ctx, "maxmemory", "1")
	}
	replace := Push{Topic: "t", ID: id, Delay: time.Hour, Body: []byte(`"new"`), OnDuplicate: Replace}
	if r := f.q.Push(f.ctx, replace); r.Err == nil {
		t.Fatalf("full shards took %+v", r)
	}
	if j := f.get("t", id); j.Shard != "a" || string(j.Body) == `"new"` {
		t.Fatalf("after the refused replace: %+v", j)
	}
	for _, s := range f.q.Shards() {
		s.client.ConfigSet(f.ctx, "maxmemory", "0")
	}
	if r := f.q.Push(f.ctx, replace); r.Err != nil || !r.Duplicate || r.Job.Shard != "b" {
		t.Fatalf("replaced: %+v", r)
	}
	if j := f.get("t", id); j.Shard != "b" || string(j.Body) != `"new"` {
		t.Fatalf("after the replace: %+v", j)
	}
	f.stats("t", 1, 0, 0, 0)
}

// TestAReplaceInTheShardThatHoldsTheJob: its home is full, so the new one goes where the old one is.
func TestAReplaceInTheShardThatHoldsTheJob(t *testing.T) {
	f, states := twoShards(t, Options{})
	states("active", "active")
	id := f.homeIs("b", "t")
	states("active", "draining")
	f.push("t", id, time.Hour)
	states("active", "active")
	for _, s := range f.q.Shards() {
		if s.name == "b" {
			s.client.ConfigSet(f.ctx, "maxmemory", "1")
		}
	}
	r := f.q.Push(f.ctx, Push{Topic: "t", ID: id, Delay: time.Hour, Body: []byte(`"new"`), OnDuplicate: Replace})
	if r.Err != nil || !r.Duplicate || r.Job.Shard != "a" {
		t.Fatalf("replaced: %+v", r)
	}
	if j := f.get("t", id); j.Shard != "a" || string(j.Body) != `"new"` {
		t.Fatalf("after the replace: %+v", j)
	}
	f.stats("t", 1, 0, 0, 0)
}
