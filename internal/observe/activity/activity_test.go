package activity

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/store"
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
				t.Errorf("%q has the kind of %q", text, groups[other][0])
			}
			seen[print] = i
		}
	}
	if len(seen) != len(groups) {
		t.Errorf("%d kinds: %v", len(seen), seen)
	}
}

// TestQuantilesAreExactToATenth, also for hours of lateness: 20 minutes are not reported as an hour.
func TestQuantilesAreExactToATenth(t *testing.T) {
	if (Histogram{}).Quantile(0.99) != 0 {
		t.Error("without a call")
	}
	for _, unit := range []time.Duration{
		time.Millisecond, 13 * time.Millisecond, time.Second, 12 * time.Second, time.Minute, time.Hour,
	} {
		h := Histogram{}
		for i := range 1000 {
			h[bucketOf(float64(i+1)*unit.Seconds())]++ // up to the unit
		}
		for _, q := range []float64{0.5, 0.95, 0.99} {
			want := time.Duration(q * float64(unit))
			if got := h.Quantile(q); (got - want).Abs() > want/10 {
				t.Errorf("the quantile %v of up to %s is %s", q, unit, got)
			}
		}
	}
}

type sink struct {
	mu    sync.Mutex
	notes []observe.Notes
	told  chan struct{}
}

func (s *sink) Note(_ context.Context, n observe.Notes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, n)
	select {
	case s.told <- struct{}{}:
	default:
	}
	return nil
}

// TestAFloodIsBounded: the data that a second writes to Redis does not grow with the calls, but the counts are exact.
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
			Priority:  store.Low,
		}
		if i%2 == 1 {
			a.Outcome, a.Error = "retry", fmt.Sprintf("the endpoint answered 500 for order %d", i)
		}
		batch = append(batch, a)
	}
	r.Record(s, batch)
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
