package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/wait"
)

func TestUnhealthyAndBack(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	name := filepath.Join(dir, "request-20250309.jsonl")
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.Probe(); err != nil {
		t.Fatalf("a journal that never wrote is unhealthy: %v", err)
	}
	if err := j.Requests(requests("1")); err == nil {
		t.Fatal("a write to a directory succeeded")
	}
	if j.Healthy() == nil || j.Probe() == nil {
		t.Fatal("healthy after a failed write")
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := j.Probe(); err == nil {
		t.Error("a second probe within a second tried to write")
	}
	c.add(probeEvery)
	if err := errors.Join(j.Probe(), j.Healthy()); err != nil {
		t.Errorf("still unhealthy: %v", err)
	}
	push(t, j, "2")
	wantIDs(t, dir, "2")
	wantNames(t, dir, "request-20250309.jsonl")
}

// TestOnlyRequestsDecideWhatIsAccepted: an error of another stream's file is logged once, and ends by itself.
func TestOnlyRequestsDecideWhatIsAccepted(t *testing.T) {
	for stream, write := range map[Stream]func(*Journal) error{
		Attempts: func(j *Journal) error { return j.Attempts([]AttemptLine{{Topic: "a", ID: "1"}}) },
		Errors:   func(j *Journal) error { return j.Error(ErrorLine{Where: "here"}) },
	} {
		t.Run(string(stream), func(t *testing.T) {
			dir, c, log := t.TempDir(), &clock{t: noon}, new(bytes.Buffer)
			j, err := Open(Options{Dir: dir, Now: c.now, Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = j.Close() })
			name, requestFile := filepath.Join(dir, fileName(stream, noon)),
				filepath.Join(dir, fileName(Requests, noon))
			if err := errors.Join(os.Mkdir(name, 0o700), os.Mkdir(requestFile, 0o700)); err != nil {
				t.Fatal(err)
			}
			said := func(words string, want int) {
				t.Helper()
				if n := strings.Count(log.String(), words); n != want {
					t.Errorf("%q is logged %d times, want %d:\n%s", words, n, want, log)
				}
			}
			for range 3 {
				if write(j) == nil {
					t.Fatal("a write to a directory succeeds")
				}
				if err := j.Accepting(); err != nil {
					t.Errorf("nothing is accepted, although requests can be written: %v", err)
				}
			}
			if j.Healthy() == nil {
				t.Error("healthy after a failed write")
			}
			said("cannot be written", 1)

			if j.Requests(requests("1")) == nil || j.Accepting() == nil {
				t.Error("accepting without a request file")
			}
			said("cannot be written", 2)
			if err := os.Remove(requestFile); err != nil {
				t.Fatal(err)
			}
			push(t, j, "2")
			if err := j.Accepting(); err != nil {
				t.Error(err)
			}
			said("can be written again", 1)

			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			c.add(probeEvery)
			if err := errors.Join(j.Accepting(), j.Healthy()); err != nil {
				t.Errorf("still unhealthy: %v", err)
			}
			said("can be written again", 2)
		})
	}
}

// TestAttemptsThatCannotBeWrittenAreWrittenLater, in the background or when the journal is closed, and once each.
func TestAttemptsThatCannotBeWrittenAreWrittenLater(t *testing.T) {
	for _, closing := range []bool{false, true} {
		dir, c := t.TempDir(), &clock{t: noon}
		j := open(t, dir, c)
		name := filepath.Join(dir, fileName(Attempts, noon))
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			if j.Attempts([]AttemptLine{{Topic: "t", ID: want[i], Outcome: Done}}) == nil {
				t.Fatal("a write to a directory succeeds")
			}
		}
		if j.Requests(requests("refused")) != nil { // its file can be written
			t.Fatal("the request file cannot be written")
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if closing {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		wait.For(t, "the lines are there", func() bool { return slices.Equal(attemptIDs(t, dir), want) })
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got := attemptIDs(t, dir); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	}
}

func attemptIDs(t *testing.T, dir string) (ids []string) {
	t.Helper()
	for l, err := range ReadAttempts(dir, Range{}) {
		if _, torn := errors.AsType[*TornError](err); torn {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.ID)
	}
	return ids
}
