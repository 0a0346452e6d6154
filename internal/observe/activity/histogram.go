package activity

import (
	"time"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// buckets are those of a DDSketch (Masson, Rim and Lee 2019): each value in a bucket is within the accuracy of the
// bucket's own value, from a tenth of a millisecond to years. Stored notes contain bucket indexes, so all versions must
// use the same accuracy.
var buckets = func() mapping.IndexMapping {
	m, err := mapping.NewLogarithmicMapping(accuracy)
	if err != nil {
		panic(err)
	}
	return m
}()

const (
	accuracy = 0.05
	leastMS  = 0.1
)

func bucketOf(ms float64) int { return buckets.Index(max(leastMS, ms)) }

// Histogram counts calls by bucket of lateness.
type Histogram map[int]int64

// Count returns the number of calls.
func (h Histogram) Count() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// waitingSteps is how finely the lateness of waiting jobs is spread.
const waitingSteps = 20

// AddWaiting adds n jobs that wait for their call, as late as they are now. Only the lateness of the oldest one is
// known; they count as if they had fallen due evenly since then.
func (h Histogram) AddWaiting(n int64, oldest time.Duration) {
	ms := float64(oldest) / float64(time.Millisecond)
	for i := int64(1); i <= waitingSteps; i++ {
		if step := n*i/waitingSteps - n*(i-1)/waitingSteps; step > 0 {
			h[bucketOf(ms*float64(i)/waitingSteps)] += step
		}
	}
}

// Quantile returns the lateness that a share q of the calls did not exceed, within 5 %. Without calls it is 0.
func (h Histogram) Quantile(q float64) time.Duration {
	if len(h) == 0 {
		return 0
	}
	counts := store.NewSparseStore()
	for b, n := range h {
		counts.AddWithCount(b, float64(n))
	}
	ms, err := ddsketch.NewDDSketch(buckets, counts, store.NewSparseStore()).GetValueAtQuantile(q)
	if err != nil { // there are no calls
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}
