package dispatcher

import (
	"strings"
	"testing"
)

// TestEveryWindowOfThePatternHasTheWeights of the priorities, wherever it begins.
func TestEveryWindowOfThePatternHasTheWeights(t *testing.T) {
	t.Parallel()
	if got := Pattern([3]int{5, 3, 2}); got != "0120010210" {
		t.Errorf("got %s", got)
	}
	for _, weights := range [][3]int{{5, 3, 2}, {1, 1, 1}, {100, 100, 100}, {100, 1, 1}, {1, 2, 97}} {
		pattern := Pattern(weights)
		sum := weights[0] + weights[1] + weights[2]
		if len(pattern) != sum {
			t.Fatalf("%v: %s", weights, pattern)
		}
		for start := range sum {
			window := (pattern + pattern)[start : start+sum]
			for i, w := range weights {
				if strings.Count(window, string(rune('0'+i))) != w {
					t.Fatalf("%v: %s has other weights", weights, window)
				}
			}
		}
	}
}
