package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestRecoveryOfJobsWithKeys: they have their keys, and are called one at a time, although their topic's limits were
// lost with them.
func TestRecoveryOfJobsWithKeys(t *testing.T) {
	h, in, client := oneHost(t)
	conf := store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 10, Key: store.KeyConf{MaxInFlight: 1}}
	in.opts.Limit = func(ctx context.Context, b *store.Bucket) error {
		return b.SetTopics(ctx, slices.Values([]store.TopicConf{conf}), 1)
	}
	attendAll(t, in)
	ready(t, h)
	for n := range 3 {
		p := store.Push{Topic: "t", ID: fmt.Sprint(n), Key: "customer 42", Priority: store.Normal}
		if err := h.queue.Push(t.Context(), p).Err; err != nil {
			t.Fatal(err)
		}
	}
	client.FlushAll(t.Context())
	attendAll(t, in)
	ready(t, h)
	wantJob(t, h.queue, "2", store.Ready, func(j *store.Job) bool { return j.Key == "customer 42" })
	r, err := h.bucket().Reserve(t.Context(), store.Reserve{Worker: "w", Token: "1", Max: 10, Pattern: "0102010201"})
	if err != nil || len(r.Jobs) != 1 || r.Jobs[0].ID != "0" {
		t.Errorf("reserved %d jobs, %v", len(r.Jobs), err)
	}
}

// TestASpooledPushKeepsItsKey until a shard has it.
func TestASpooledPushKeepsItsKey(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	list, err := NewSpool(h.dir, h.journal).Keep([]store.Push{
		{Topic: "t", ID: "1", Key: "k", Delay: time.Hour, Priority: store.Normal},
	})
	if err != nil || list[0].Key != "k" {
		t.Fatal(list, err)
	}
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir, false); err != nil {
		t.Fatal(err)
	}
	wantJob(t, h.queue, "1", store.Delayed, func(j *store.Job) bool { return j.Key == "k" })
}
