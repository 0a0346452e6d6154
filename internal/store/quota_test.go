package store_test

import (
	"maps"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func counting(tokens string) func(*store.Push) { return func(p *store.Push) { p.Quota = tokens } }

// waiting checks how many jobs count for each token.
func (f *fixture) waiting(want map[uint64]int64) {
	f.Helper()
	if got := f.q.Waiting(f.ctx); !maps.Equal(got, want) {
		f.Fatalf("%v jobs count for the tokens, want %v", got, want)
	}
}

// TestWaitingJobsAreCounted from their push to their end, in whatever way they end.
func TestWaitingJobsAreCounted(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		f.push("shop", id, 0, counting("7,3"))
	}
	f.push("shop", "later", time.Hour, counting("7"))
	f.push("shop", "uncounted", time.Hour)
	f.waiting(map[uint64]int64{7: 6, 3: 5})
	leased := f.reserve(10)
	f.waiting(map[uint64]int64{7: 6, 3: 5})
	for i, v := range []store.Verb{store.Done, store.Bury, store.Release, store.Expire, store.Snooze} {
		f.settle(v, func(e *store.End) { e.Delay, e.AtHead = time.Hour, false }, leased[i])
	}
	f.waiting(map[uint64]int64{7: 3, 3: 2})
	if n, err := f.b.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "shop", Limit: 1}); err != nil ||
		len(n) != 1 {
		t.Fatal(n, err)
	}
	f.waiting(map[uint64]int64{7: 4, 3: 3})
	if n, err := f.b.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "shop", Limit: 9}); err != nil ||
		len(n) != 1 {
		t.Fatal(n, err)
	}
	f.waiting(map[uint64]int64{7: 4, 3: 3})
	f.push("shop", "later", time.Hour, func(p *store.Push) { p.OnDuplicate = store.Keep }, counting("7"))
	f.waiting(map[uint64]int64{7: 4, 3: 3})
	f.push("shop", "later", time.Hour, func(p *store.Push) { p.OnDuplicate = store.Replace }, counting("8"))
	f.waiting(map[uint64]int64{7: 3, 3: 3, 8: 1})
	if err := f.q.Delete(f.ctx, "shop", "later", nil); err != nil {
		t.Fatal(err)
	}
	f.waiting(map[uint64]int64{7: 3, 3: 3})
	if _, err := f.q.DropTopic(f.ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	f.waiting(map[uint64]int64{})
}

// TestAMovedJobIsCountedWhereItIs: a shard that is drained has its jobs counted once, and the pair goes with them.
func TestAMovedJobIsCountedWhereItIs(t *testing.T) {
	f := newFixture(t)
	f.push("shop", "a", time.Hour, counting("7"))
	j := f.get("shop", "a")
	if j.Quota != "7" {
		t.Fatalf("the job counts for %q", j.Quota)
	}
	if !f.leave(f.b, j) {
		t.Fatal("it did not leave")
	}
	f.waiting(map[uint64]int64{})
	f.restore(f.b, j)
	f.waiting(map[uint64]int64{7: 1})
	j = f.get("shop", "a")
	j.State, j.DeadAt = store.Dead, time.Now()
	f.leave(f.b, f.get("shop", "a"))
	f.restore(f.b, j)
	if got := f.q.Waiting(f.ctx); got[7] > 1 {
		t.Errorf("%v", got)
	}
}

// TestARateIsDrawn: no more than the rate and one second's.
func TestARateIsDrawn(t *testing.T) {
	f := newFixture(t)
	var sum int64
	began := time.Now()
	for time.Since(began) < 1500*time.Millisecond {
		n, _, again, err := f.q.Draw(f.ctx, 7, 1000, 30)
		if err != nil {
			t.Fatal(err)
		}
		if sum += n; n == 0 && (again <= 0 || again > time.Second) {
			t.Fatalf("nothing is left, and it is for %s", again)
		}
		time.Sleep(time.Millisecond)
	}
	most := 1000 + int64(time.Since(began).Seconds()*1000) + 1
	if sum > most || sum < most-200 {
		t.Errorf("%d were drawn, of %d", sum, most)
	}
	if n, left, _, err := f.q.Draw(f.ctx, 8, 5, 100); err != nil || n != 5 || left != 0 {
		t.Errorf("another token: %d, %d left, %v", n, left, err)
	}
}
