package store

import (
	"fmt"
	"testing"
)

// TestWhatATakeCounts: each topic that the script checks, and a little for those that it only reads again. So a call is
// bounded, and many workers that name the same topics share one.
func TestWhatATakeCounts(t *testing.T) {
	same := takeCall{requests: []TakeRequest{{Topics: topicsNamed("t", 50)}}, await: topicsNamed("t", 50)}
	other := takeCall{requests: []TakeRequest{{Topics: topicsNamed("x", 50)}, {Topics: topicsNamed("x", 25)}}, await: topicsNamed("y", 10)}
	seen := map[string]bool{}
	for i, want := range []float64{50, 50 * repeated, 50 * repeated} {
		if n := same.topics(seen); n != want {
			t.Errorf("worker %d that names the same 50 topics counts %g; want %g", i+1, n, want)
		}
	}
	if n := other.topics(seen); n != 60+25*repeated {
		t.Errorf("50 other topics, 25 of them again, and 10 that are awaited count %g", n)
	}
	if most := 1 + (MaxTopics-50)/(50*repeated); most < 30 {
		t.Errorf("at most %g workers share a call", most)
	}
}

func topicsNamed(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	return list
}
