package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestHousekeep(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	push(t, j, "1", "2")
	if err := j.Error(ErrorLine{Error: "x"}); err != nil {
		t.Fatal(err)
	}
	foreign := []string{"request-20250101.jsonl.bak", "notes.txt", "request-20259999.jsonl"}
	for _, f := range foreign {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	housekeep(t, j)
	c.add(day)
	push(t, j, "3")
	housekeep(t, j)
	housekeep(t, j)
	wantNames(t, dir, "error-20250309.jsonl.gz", "notes.txt", "request-20250101.jsonl.bak", "request-20250309.jsonl.gz",
		"request-20250310.jsonl", "request-20259999.jsonl")
	wantIDs(t, dir, "1", "2", "3")
	if info, err := os.Stat(filepath.Join(dir, "request-20250309.jsonl.gz")); err != nil ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	c.add(2 * day)
	housekeep(t, j)
	c.add(retryBusy)
	housekeep(t, j)
	wantNames(t, dir, "notes.txt", "request-20250101.jsonl.bak", "request-20250310.jsonl.gz", "request-20259999.jsonl")
}

// TestAFileOnAnotherDiskIsReadThroughItsLink, as it is written. Links to what is no file are ignored.
func TestAFileOnAnotherDiskIsReadThroughItsLink(t *testing.T) {
	dir, elsewhere, c := t.TempDir(), t.TempDir(), &clock{t: noon}
	target := filepath.Join(elsewhere, "big")
	for link, to := range map[string]string{
		"request-20250309.jsonl": target, "request-20250308.jsonl": elsewhere,
		"request-20250307.jsonl": target + "none",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	j := open(t, dir, c)
	push(t, j, "1")
	wantIDs(t, dir, "1")
	p := positionOf(t, dir)
	push(t, j, "2")
	if got, _ := ids(t, dir, Range{From: p}); !slices.Equal(got, []string{"2"}) {
		t.Errorf("after %s: %v", p, got)
	}
	c.add(day)
	housekeep(t, j) // the packed file is in the journal's directory
	wantNames(t, dir, "request-20250307.jsonl", "request-20250308.jsonl", "request-20250309.jsonl.gz")
	wantIDs(t, dir, "1", "2")
}

// TestAClockAheadForAMomentCostsNoFile: each time somebody sets it right, housekeeping begins anew.
func TestAClockAheadForAMomentCostsNoFile(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	push(t, j, "1")
	for range 3 {
		c.add(100 * day)
		if complete, err := j.Housekeep(context.Background()); complete || err != nil {
			t.Errorf("with the clock ahead it is complete: %v, %v", complete, err)
		}
		c.add(-100 * day)
		housekeep(t, j)
		c.add(retryBusy)
	}
	wantIDs(t, dir, "1")
	c.add(100 * day)
	housekeep(t, j)
	c.add(retryBusy)
	housekeep(t, j)
	wantNames(t, dir)
}

func housekeep(t testing.TB, j *Journal) {
	t.Helper()
	if _, err := j.Housekeep(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestHousekeepLeavesOpenFiles(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j, other := open(t, dir, c), open(t, dir, c)
	push(t, other, "1")
	c.add(day)
	if complete, err := j.Housekeep(context.Background()); err != nil || complete {
		t.Fatalf("complete %v, %v", complete, err)
	}
	wantNames(t, dir, "request-20250309.jsonl")
	push(t, other, "2") // moves on to the new day
	if complete, err := j.Housekeep(context.Background()); err != nil || !complete {
		t.Fatalf("complete %v, %v", complete, err)
	}
	wantNames(t, dir, "request-20250309.jsonl.gz", "request-20250310.jsonl")
	wantIDs(t, dir, "1", "2")
}

// If a process is killed between the rename of the packed file and the removal of the plain one, the next run leaves
// each line once; late lines are added.
func TestHousekeepTwiceOverOneDay(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	name := filepath.Join(dir, "request-20250309.jsonl")
	for _, id := range []string{"1", "2"} {
		push(t, j, id)
		plain, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c.add(day)
		housekeep(t, j)
		if err := os.WriteFile(name, plain, 0o600); err != nil {
			t.Fatal(err)
		}
		housekeep(t, j)
		c.add(-day)
	}
	wantNames(t, dir, "request-20250309.jsonl.gz")
	wantIDs(t, dir, "1", "2")
}

func TestHousekeepStops(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	push(t, j, "1")
	c.add(day)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := j.Housekeep(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantNames(t, dir, "request-20250309.jsonl")
}

func TestManyHousekeepers(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	first := open(t, dir, c)
	var want []string
	for d := range 2 {
		want = append(want, fmt.Sprint(d))
		push(t, first, want[d])
		c.add(day)
	}
	var all sync.WaitGroup
	for range 8 {
		j := open(t, dir, c)
		all.Go(func() {
			if _, err := j.Housekeep(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	housekeep(t, first)
	wantNames(t, dir, "request-20250309.jsonl.gz", "request-20250310.jsonl.gz")
	wantIDs(t, dir, want...)
}

func TestRunHousekeeping(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, err := Open(Options{Dir: dir, Keep: 36 * time.Hour, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- j.RunHousekeeping(ctx) }()
		push(t, j, "1") // a bubble's time begins at midnight
		first := fileName(Requests, time.Now())
		time.Sleep(day)
		synctest.Wait()
		wantNames(t, dir, first)
		time.Sleep(2 * afterMidnight)
		synctest.Wait()
		wantNames(t, dir, first+gz)
		time.Sleep(2*day + retryBusy)
		synctest.Wait()
		wantNames(t, dir)
		cancel()
		if err := errors.Join(<-ended, j.Close()); err != nil {
			t.Error(err)
		}
	})
}
