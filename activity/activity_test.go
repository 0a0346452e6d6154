package activity

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/queue"
)

func TestFingerprintsGroupWhatIsOfAKind(t *testing.T) {
	groups := [][]string{
		{"the endpoint answered 500 Internal Server Error", "the endpoint answered 500 Internal Server Error"},
		{"the endpoint answered 503 Service Unavailable"},
		{"dial tcp 10.0.0.7:8080: connection refused", "dial tcp 10.0.0.9:8081: connection refused"},
		{`order 4711 is locked by 9f86d081884c7d65`, `order 12 is locked by deadbeefcafe0123`},
		{"no lock for 0190e0f1-8d3c-7abc-9def-0123456789ab", "no lock for 0190e0f1-8d3c-7abc-9def-0123456789ff"},
	}
	seen := map[string]int{}
	for i, group := range groups {
		for _, text := range group {
			print := Fingerprint(text)
			if other, ok := seen[print]; ok && other != i {
				t.Errorf("%q is of the kind of %q", text, groups[other][0])
			}
			seen[print] = i
		}
	}
	if len(seen) != len(groups) {
		t.Errorf("%d kinds: %v", len(seen), seen)
	}
}

func TestQuantilesAreWithinTheirBuckets(t *testing.T) {
	var h Histogram
	if h.Quantile(0.99) != 0 {
		t.Error("without a call")
	}
	for i := range 100 {
		h[bucketOf(float64(i+1))]++ // 1 to 100 ms
	}
	for q, want := range map[float64][2]time.Duration{0.5: {40 * time.Millisecond, 55 * time.Millisecond}, 0.99: {90 * time.Millisecond, 100 * time.Millisecond}} {
		if got := h.Quantile(q); got < want[0] || got > want[1] {
			t.Errorf("the quantile %v is %s, want %v", q, got, want)
		}
	}
	if bucketOf(1e12) != queue.LatenessBuckets-1 {
		t.Error("there is no bucket for the very late")
	}
}

type sink struct {
	mu    sync.Mutex
	notes []queue.Notes
	told  chan struct{}
}

func (s *sink) Note(_ context.Context, _ int, n queue.Notes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, n)
	select {
	case s.told <- struct{}{}:
	default:
	}
	return nil
}

// TestAFloodIsBounded: what a second brings to Redis does not grow with the calls, but the counts are exact.
func TestAFloodIsBounded(t *testing.T) {
	r, s := New(nil), &sink{told: make(chan struct{}, 1)}
	var batch []Attempt
	for i := range 10000 {
		a := Attempt{
			Topic:     "t",
			ID:        fmt.Sprint(i),
			N:         1,
			First:     true,
			Called:    true,
			LateMS:    2,
			Outcome:   "done",
			StartedAt: int64(i),
			Priority:  queue.Low,
		}
		if i%2 == 1 {
			a.Outcome, a.Error = "retry", fmt.Sprintf("the endpoint answered 500 for order %d", i)
		}
		batch = append(batch, a)
	}
	r.Record(s, 0, batch)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Run(ctx) // the last flush
	if len(s.notes) != 1 || len(s.notes[0].Topics) != 1 {
		t.Fatalf("notes %+v", s.notes)
	}
	n := s.notes[0].Topics[0]
	if len(n.Attempts) != maxGood+maxBad || len(n.Errors) != 1 || n.Errors[0].N != 5000 ||
		s.notes[0].Reserved != [3]int64{0, 0, 10000} {
		t.Errorf("%d attempts, errors %+v, reserved %v", len(n.Attempts), n.Errors, s.notes[0].Reserved)
	}
	if n.Lateness[bucketOf(2)] != 10000 {
		t.Errorf("lateness %v", n.Lateness)
	}
	var last Attempt
	if err := json.Unmarshal(n.Attempts[len(n.Attempts)-1], &last); err != nil || last.ID != "9999" {
		t.Errorf("the last attempt is %+v, %v", last, err)
	}
}
