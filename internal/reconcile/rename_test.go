package reconcile

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestRecoveryOfARenamedShardReadsLinesOfBothNames, from the reconciler and from a manual recovery.
func TestRecoveryOfARenamedShardReadsLinesOfBothNames(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		url, client := startRedis(t)
		h := newHost(t, url)
		name := func(c store.ShardConfig) {
			c.URL, c.State, c.Identity = url, "active", "i"
			if err := h.queue.Shards.Set([]store.ShardConfig{c}); err != nil {
				t.Fatal(err)
			}
		}
		name(store.ShardConfig{Name: "a"})
		h.adopt(t)
		h.push(t, "first", `"old"`, time.Hour)
		name(store.ShardConfig{Name: "b", Former: "a"})
		h.push(t, "second", `"old"`, time.Hour)
		name(store.ShardConfig{Name: "c", Former: "a b"})
		h.push(t, "third", `"old"`, time.Hour)
		client.FlushAll(t.Context())
		if byHand {
			client.MSet(t.Context(), "wk:{0}:rev", 5_000_000, "wk:{0}:format", store.Format) // as after a comparison
			h.adopt(t)
			if report, err := h.recover(t.Context(), false); err != nil || report.Pushed != 3 {
				t.Errorf("manual recovery: %+v, %v", report, err)
			}
		} else {
			h.keep(t, time.Second)
		}
		for _, id := range []string{"first", "second", "third"} {
			eventually(t, id+" to be there", func() bool {
				j, err := h.queue.Get(t.Context(), "t", id)
				return err == nil && j.Shard == "c"
			})
		}
	}
}

// TestRecoveryOpensNoShardByASecondName without the journal's lines for the first name.
func TestRecoveryOpensNoShardByASecondName(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	list := []store.ShardConfig{
		{Name: "a", URL: url, State: "active", Identity: "ia"}, {Name: "b", URL: url, State: "active", Identity: "ib"},
	}
	if err := h.queue.Shards.Set(list[:1]); err != nil {
		t.Fatal(err)
	}
	h.adopt(t)
	h.push(t, "job", `"old"`, time.Hour)
	if err := h.queue.Shards.Set(list); err != nil {
		t.Fatal(err)
	}
	b := h.queue.Shards.All()[1]
	if err := b.Check(t.Context()); err == nil {
		t.Fatal("b is used")
	}
	client.FlushAll(t.Context())
	if err := adopt(t.Context(), b); err == nil {
		t.Error("b was opened")
	}
	h.keep(t, time.Second)
	eventually(t, "the job to be back", func() bool {
		j, err := h.queue.Get(t.Context(), "t", "job")
		return err == nil && j.Shard == "a"
	})
}
