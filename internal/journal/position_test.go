package journal

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
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
	if got := ids(nil); got != "[a b clock set back c d e f]" {
		t.Errorf("all: %s", got)
	}
	write(noon, "clock set back to a packed day", false)
	if got := ids(early); got != "[clock set back d clock set back to a packed day e f]" {
		t.Errorf("after %s, at last: %s", early, got)
	}
	both := positionOf(t, dir)
	write(noon.Add(day), "", true) // adds it to the packed file
	for p, want := range map[*Position]string{
		&early: "[clock set back d clock set back to a packed day e f]",
		&late:  "[clock set back to a packed day f]",
		&both:  "[clock set back to a packed day]", // read again: the position is in the packed file
	} {
		if got := ids(*p); got != want {
			t.Errorf("after %s, packed twice: %s; want %s", p, got, want)
		}
	}
	if got := ids(positionOf(t, dir)); got != "[]" {
		t.Errorf("after the end of packed files: %s", got)
	}
}

// TestAFileThatWasPackedAnewIsReadWhole: the position in the old one means nothing.
func TestAFileThatWasPackedAnewIsReadWhole(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	push(t, j, "1", "2", "3")
	c.add(day)
	housekeep(t, j)
	name := filepath.Join(dir, "request-20250309.jsonl.gz")
	p := positionOf(t, dir)
	for _, level := range []int{gzip.NoCompression, gzip.HuffmanOnly} {
		var lines, packed bytes.Buffer
		old, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(old)
		if err == nil {
			_, err = lines.ReadFrom(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		old.Close()
		w, _ := gzip.NewWriterLevel(&packed, level)
		_, _ = w.Write(lines.Bytes())
		_ = w.Close()
		if err := os.WriteFile(name, packed.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, torn := ids(t, dir, Range{From: p}); len(got) != 3 || torn != 0 {
			t.Errorf("after %s in a file of %d bytes: %v, %d torn", p, packed.Len(), got, torn)
		}
		p[0].requests = -int64(packed.Len()) - 10 // now it is shorter than the position
	}
}
