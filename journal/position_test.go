package journal

import (
	"fmt"
	"testing"
	"time"
)

func positionOf(t *testing.T, dir string) Position {
	t.Helper()
	p, err := End(dir)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParsePosition(p.String())
	if err != nil || !back.Equal(p) {
		t.Fatalf("%s is read as %s, %v", p, back, err)
	}
	return back
}

// TestWhatIsWrittenLaterIsBehindThePosition, however the host's clock changes in between, and also after files are
// packed.
func TestWhatIsWrittenLaterIsBehindThePosition(t *testing.T) {
	dir := t.TempDir()
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	write := func(at time.Time, id string, pack bool) {
		t.Helper()
		j, err := Open(Options{Dir: dir, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		if id != "" {
			err = j.Requests([]RequestLine{{Op: OpPush, Topic: "t", ID: id}})
			if err == nil {
				err = j.Attempts([]AttemptLine{{Topic: "t", ID: id, N: 1, Outcome: Done}})
			}
		}
		if err == nil && pack {
			_, err = j.Housekeep(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(p Position) string {
		var out []string
		for l, err := range ReadRequests(dir, Range{From: p}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, l.ID)
		}
		var attempts []string
		for l, err := range ReadAttempts(dir, Range{From: p}) {
			if err != nil {
				t.Fatal(err)
			}
			attempts = append(attempts, l.ID)
		}
		if fmt.Sprint(out) != fmt.Sprint(attempts) {
			t.Errorf("requests %v, attempts %v", out, attempts)
		}
		return fmt.Sprint(out)
	}
	day := 24 * time.Hour
	write(noon.Add(-5*day), "a", false)
	write(noon.Add(-day), "b", false)
	write(noon, "c", false)
	early := positionOf(t, dir)
	write(noon.Add(-day), "clock set back", false)
	write(noon, "d", false)
	write(noon.Add(day), "e", false)
	if got := ids(early); got != "[clock set back d e]" {
		t.Errorf("after %s: %s", early, got)
	}
	write(noon.Add(day), "", true) // packs the days before
	if got := ids(early); got != "[clock set back d e]" {
		t.Errorf("after %s, packed: %s", early, got)
	}
	late := positionOf(t, dir)
	if got := ids(late); got != "[]" {
		t.Errorf("after the end: %s", got)
	}
	write(noon.Add(day), "f", false)
	if got := ids(late); got != "[f]" {
		t.Errorf("after %s: %s", late, got)
	}
	if got := ids(late.Earlier(early)); got != "[clock set back d e f]" {
		t.Errorf("after the earlier one: %s", got)
	}
	if got := ids(nil); got != "[a b clock set back c d e f]" {
		t.Errorf("all: %s", got)
	}
	write(noon, "clock set back to a packed day", false)
	if got := ids(early); got != "[clock set back d clock set back to a packed day e f]" {
		t.Errorf("after %s, at last: %s", early, got)
	}
}
