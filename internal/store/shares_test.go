package store_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

// TestManyTopicsShareFiveThreeTwo: the jobs, not the visits, of the priorities are 5:3:2, over any number of topics.
func TestManyTopicsShareFiveThreeTwo(t *testing.T) {
	const jobs = 2000 // are reserved; each priority has twice its share, so that none runs out
	for _, topics := range []int{1, 100, 5000} {
		t.Run(fmt.Sprint(topics), func(t *testing.T) {
			f := newFixture(t)
			for priority, n := range map[store.Priority]int{store.High: jobs, store.Normal: jobs, store.Low: jobs} {
				var list []store.Push
				for i := range n {
					list = append(list, store.Push{Topic: fmt.Sprint("t", i%topics), ID: fmt.Sprint(priority, i), Priority: priority})
				}
				for _, r := range f.q.PushBatch(f.ctx, list) {
					if r.Err != nil {
						t.Fatal(r.Err)
					}
				}
			}
			count, reserved := map[store.Priority]int{}, 0
			for i := 0; reserved < jobs; i++ {
				ls := f.reserve([]int{1, 7, 32, 100, 128}[i%5])
				if len(ls) == 0 {
					t.Fatalf("nothing is reserved after %d jobs", reserved)
				}
				for _, l := range ls {
					count[l.Priority]++
				}
				reserved += len(ls)
				f.settle(store.Done, nil, ls...)
			}
			for priority, want := range map[store.Priority]float64{store.High: 50, store.Normal: 30, store.Low: 20} {
				if got := 100 * float64(count[priority]) / float64(reserved); math.Abs(got-want) > 2 {
					t.Errorf("%.1f %% of the jobs are %v; want %.0f", got, priority, want)
				}
			}
		})
	}
}
