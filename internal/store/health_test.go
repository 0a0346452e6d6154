package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestHealthNamesTheLargestTopic among those of all buckets, and counts the jobs of small ones.
func TestHealthNamesTheLargestTopic(t *testing.T) {
	f := newFixture(t)
	f.push("a", "1", time.Hour)
	var batch []store.Push
	for i := range store.SmallTopic + 1 {
		batch = append(batch, store.Push{Topic: "large", ID: fmt.Sprint(i), Delay: time.Hour})
	}
	for _, r := range f.q.PushBatch(f.ctx, batch) {
		if r.Err != nil {
			f.Fatal(r.Err)
		}
	}
	f.push("z", "1", time.Hour)
	h := f.s.Health(f.ctx)
	if h.Largest != "large" || h.LargestJobs != store.SmallTopic+1 || h.SmallJobs != 2 || h.Jobs != store.SmallTopic+3 || h.Cluster {
		t.Errorf("health = %+v", h)
	}
}
