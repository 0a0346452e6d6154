package queue

import (
	"fmt"
	"testing"
	"time"
)

// splitAt sets the number of small hashes, and the number of locators that makes one long.
func (f *fixture) splitAt(small uint32, long int) {
	f.s.locators, f.s.scripts = small, loadScripts(small, long, 0, false)
}

// halfSplit sets a shard's split counter: every small hash is split once, half of them twice.
func (f *fixture) halfSplit(s *Shard) {
	f.Helper()
	if err := s.client.HSet(f.ctx, prefix(0)+"cur", "/", locators+locators/2).Err(); err != nil {
		f.Fatal(err)
	}
}

// longest returns the number of locators in the longest small hash, and the number of small hashes.
func (f *fixture) longest() (longest int64, hashes int) {
	f.Helper()
	keys := f.s.client.Keys(f.ctx, smallHash(0)+"*").Val()
	for _, key := range keys {
		longest = max(longest, f.s.client.HLen(f.ctx, key).Val())
	}
	return longest, len(keys)
}

func TestSmallHashesAreSplitAsJobsBecomeMany(t *testing.T) {
	const jobs, small, long = 3000, 5, 8
	f := newFixture(t)
	f.splitAt(small, long)
	pushes := make([]Push, jobs)
	for i := range pushes {
		pushes[i] = Push{Topic: "t", ID: fmt.Sprintf("order-%d", i), Delay: time.Hour, Body: fmt.Append(nil, i),
			Priority: Priority(i % 3)}
	}
	for from := 0; from < jobs; from += 100 {
		for _, r := range f.q.PushBatch(f.ctx, pushes[from:from+100]) {
			if r.Err != nil || r.Duplicate {
				t.Fatalf("%+v", r)
			}
		}
		f.advance()
	}
	var longest int64
	var hashes int
	eventually(t, "all long small hashes are split", func() bool {
		f.advance()
		longest, hashes = f.longest()
		return longest <= 3*long
	})
	if hashes > 2*jobs/long {
		t.Fatalf("%d small hashes, the longest with %d locators; want splits at %d", hashes, longest,
			long)
	}
	if n := f.locators(); n != jobs {
		t.Fatalf("%d locators of %d jobs", n, jobs)
	}
	for _, r := range f.q.PushBatch(f.ctx, pushes[:1000]) {
		if r.Err != nil || !r.Duplicate {
			t.Fatalf("pushed again: %+v", r)
		}
	}
	for i := range pushes {
		if j := f.get("t", pushes[i].ID); string(j.Body) != fmt.Sprint(i) {
			t.Fatalf("%s has the body %s", pushes[i].ID, j.Body)
		}
	}
	if err := openPages(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	for done := 0; done < jobs; {
		leases := f.reserve(100)
		if len(leases) == 0 {
			t.Fatalf("%d of %d jobs are done, and no more are ready", done, jobs)
		}
		f.settle(Done, nil, leases...)
		done += len(leases)
	}
	f.advance()
	f.clean()
}
