package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
)

// TestEndsOfOneShardDoNotWaitForAnotherThatHangs, in one call with jobs of both.
func TestEndsOfOneShardDoNotWaitForAnotherThatHangs(t *testing.T) {
	t.Parallel()
	d := redistest.StartShards(t)
	q := open(store.Options{})
	defer func() { _ = q.Close() }()
	var configs []store.ShardConfig
	for i, url := range d.URLs {
		configs = append(configs, store.ShardConfig{Name: fmt.Sprint("s", i), URL: url, State: "active"})
	}
	if err := q.Shards.Set(configs); err != nil {
		t.Fatal(err)
	}
	for _, s := range q.Shards.All() {
		eventually(t, "the shard is adopted", func() bool { return adoptAll(t.Context(), s) == nil })
	}
	pull := []store.TopicConf{{Name: "t", Pull: true, TTR: time.Hour}}
	if err := q.SetTopics(t.Context(), slices.Values(pull)); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if r := q.Push(t.Context(), store.Push{Topic: "t", ID: fmt.Sprint(i)}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	byShard := map[string][]store.Job{}
	for range 40 {
		jobs, err := q.Take(t.Context(), store.TakeRequest{Topics: []string{"t"}, Max: 1})
		if err != nil || len(jobs) == 0 {
			t.Fatal(jobs, err)
		}
		byShard[jobs[0].Shard] = append(byShard[jobs[0].Shard], jobs[0])
	}
	hangs, answers := byShard["s0"], byShard["s1"]
	for i := range min(len(hangs), len(answers), 8) { // in any order
		d.Nodes[0].Stop()
		done := make(chan []store.Ended, 1)
		go func() {
			done <- q.End(t.Context(), []store.End{{Lease: hangs[i].Lease, Verb: store.Done}, {Lease: answers[i].Lease, Verb: store.Done}})
		}()
		eventually(t, "the job of the shard that answers is gone", func() bool {
			job, err := read(t.Context(), q.Shards.All()[1], "t", answers[i].ID)
			return job == nil && err == nil
		})
		d.Nodes[0].Continue()
		for _, e := range <-done {
			if e.Err != nil {
				t.Error(e.Err)
			}
		}
	}
}
