package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestTheEndOfALongDayIsReadWithoutItsBeginning: all lines since a time are returned, and hardly any of the file before
// it is read.
func TestTheEndOfALongDayIsReadWithoutItsBeginning(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	j, err := Open(Options{Dir: dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	body := bytes.Repeat([]byte("x"), 10_000)
	const seconds = 1000
	for n := range seconds {
		now = now.Add(time.Second)
		if err := j.Requests([]RequestLine{{Op: OpPush, Topic: "t", ID: fmt.Sprint(n), Body: body}}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "request-20260102.jsonl")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []int{1, 10, 500, seconds} {
		since := now.Add(-time.Duration(last-1) * time.Second)
		got := 0
		for l, err := range ReadRequests(dir, Range{Since: since}) {
			if err != nil {
				t.Fatalf("the last %d: %v", last, err)
			}
			if want := fmt.Sprint(seconds - last + got); l.ID != want {
				t.Fatalf("the last %d: line %d is %s, want %s", last, got, l.ID, want)
			}
			got++
		}
		if got != last {
			t.Errorf("%d lines, want the last %d", got, last)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if skipped, err := skipTo(file, now.Add(-10*time.Second)); err != nil || !skipped {
		t.Fatalf("skipped %v, %v", skipped, err)
	}
	if at, _ := file.Seek(0, 1); at < info.Size()-3<<20 {
		t.Errorf("reading begins at %d of %d bytes", at, info.Size())
	}
}

// TestSyncedWritesShareAnFsync: with many writers there are far fewer fsyncs than writes, and no write returns before
// its own.
func TestSyncedWritesShareAnFsync(t *testing.T) {
	j, err := Open(Options{Dir: t.TempDir(), Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for n := range 50 {
				if err := j.Requests([]RequestLine{{Op: OpPush, Topic: "t", ID: fmt.Sprint(w, n)}}); err != nil {
					t.Error(err)
				}
				s := j.requests
				s.syncing.Lock()
				synced := s.synced
				s.syncing.Unlock()
				if synced == 0 {
					t.Error("a write returned before any fsync")
				}
			}
		})
	}
	wg.Wait()
	if s := j.requests; s.synced != s.writes || s.writes != 800 {
		t.Errorf("%d of %d writes are on the disk, want all of 800", s.synced, s.writes)
	}
}

func TestAJournalKeepsItsIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = Identity(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("identities %q", ids)
		}
	}
	other, err := Identity(t.TempDir())
	if err != nil || other == ids[0] {
		t.Errorf("another journal has the name %q, %v", other, err)
	}
}
