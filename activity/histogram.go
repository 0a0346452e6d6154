package activity

import (
	"sort"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// bounds are the upper bounds of the buckets of lateness in ms; the last bucket has none.
var bounds = [...]float64{
	0.5, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000, 3000, 5000, 10000, 20000,
	30000, 60000, 120000, 300000, 600000, 3600000,
}

var _ [queue.LatenessBuckets]struct{} = [len(bounds) + 1]struct{}{}

func bucketOf(ms float64) int { return sort.SearchFloat64s(bounds[:], ms) }

// Histogram counts calls by how late they began.
type Histogram [queue.LatenessBuckets]int64

// Count is the number of calls.
func (h *Histogram) Count() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile is the lateness that a share q of the calls did not exceed, interpolated within its bucket; 0 without a
// call.
func (h *Histogram) Quantile(q float64) time.Duration {
	left := q * float64(h.Count())
	if left <= 0 {
		return 0
	}
	for b, n := range h {
		if float64(n) < left {
			left -= float64(n)
			continue
		}
		from, to := 0.0, bounds[len(bounds)-1]
		if b > 0 {
			from = bounds[b-1]
		}
		if b < len(bounds) {
			to = bounds[b]
		}
		return time.Duration((from + (to-from)*left/float64(n)) * float64(time.Millisecond))
	}
	return 0
}
