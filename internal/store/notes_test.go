package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
)

func TestNotesAreReadBackAndBounded(t *testing.T) {
	f := newFixture(t)
	n := observe.Notes{Reserved: [3]int64{5, 3, 2}}
	for i := range 60 {
		topic := observe.TopicNotes{Topic: fmt.Sprint("t", i), Lateness: map[int]int64{3: 2, -17: 1}}
		n.Topics = append(n.Topics, topic)
	}
	for i := range 150 {
		n.Topics[0].Attempts = append(n.Topics[0].Attempts, fmt.Appendf(nil, `{"id":"%d"}`, i))
		n.Topics[0].Errors = append(n.Topics[0].Errors,
			observe.ErrorNote{Fingerprint: fmt.Sprint("kind ", i), N: 2, Example: "an example of " + fmt.Sprint(i)})
	}
	since := time.Now().Add(-time.Minute)
	for range 2 {
		if err := observe.Note(f.ctx, f.b, n); err != nil {
			t.Fatal(err)
		}
	}
	attempts, err := f.figures().Attempts(f.ctx, "t0", 100)
	if err != nil || len(attempts) != 100 || string(attempts[0]) != `{"id":"149"}` {
		t.Errorf("%d attempts, the newest %s, %v", len(attempts), attempts[0], err)
	}
	kinds, err := f.figures().Errors(f.ctx, "t0")
	if err != nil || len(kinds) != 100 {
		t.Fatalf("%d kinds, %v", len(kinds), err)
	}
	for _, k := range kinds {
		if k.N < 2 || k.First.After(k.Last) || time.Since(k.Last) > time.Minute || k.Example == "" {
			t.Fatalf("kind %+v", k)
		}
	}
	late, err := f.figures().LatenessCounts(f.ctx, []string{"t7", "nobody", "t8"}, since)
	for topic, want := range map[string]int64{"t7": 4, "t8": 4, "nobody": 0} {
		if got := late[topic]; err != nil || got[3] != want || got[-17] != want/2 {
			t.Errorf("lateness of %q: %v, %v", topic, got, err)
		}
	}
	if all, err := f.figures().LatenessOfAll(f.ctx, since); err != nil || all[3] != 240 {
		t.Errorf("lateness of all: %v, %v", all, err)
	}
	if got, err := f.figures().ReserveCounts(f.ctx, since); err != nil || got != [3]int64{10, 6, 4} {
		t.Errorf("reserved %v, %v", got, err)
	}
	if err := f.figures().ClearErrors(f.ctx, "t0"); err != nil {
		t.Fatal(err)
	}
	if kinds, err := f.figures().Errors(f.ctx, "t0"); err != nil || len(kinds) != 0 {
		t.Errorf("after they were cleared: %v, %v", kinds, err)
	}
}
