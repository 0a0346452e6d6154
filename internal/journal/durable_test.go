package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

// syncs records the files that a stream syncs, and fails the sync of one.
type syncs struct {
	mu    sync.Mutex
	names []string
	fail  string
}

var errSync = errors.New("input/output error")

func (s *syncs) sync(f *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := filepath.Base(f.Name())
	s.names = append(s.names, name)
	if name == s.fail {
		return errSync
	}
	return f.Sync()
}

// acrossMidnight makes a durable write whose file is closed before its fsync, because another write is on the next day.
// It returns the durable write's error and the names of the synced files.
func acrossMidnight(t *testing.T, fail string) ([]string, error) {
	t.Helper()
	c := &clock{t: noon.Add(12*time.Hour - time.Millisecond)}
	j := open(t, t.TempDir(), c)
	s, seen := j.requests, &syncs{fail: fail}
	onSync(t, seen.sync)
	s.syncing.Lock() // delays the durable write between write and fsync
	ended := make(chan error, 1)
	go func() { ended <- j.Durably(requests("before")) }()
	for written := false; !written; {
		s.mu.Lock()
		written = s.writes == 1
		s.mu.Unlock()
	}
	c.add(time.Hour)
	push(t, j, "after")
	s.syncing.Unlock()
	err := <-ended
	return seen.names, err
}

// TestADurableWriteIsSyncedAcrossARotation: the write's own file is synced, although it was closed before the fsync
// began.
func TestADurableWriteIsSyncedAcrossARotation(t *testing.T) {
	names, err := acrossMidnight(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "request-20250309.jsonl") {
		t.Errorf("only %q were synced", names)
	}
}

// TestADurableWriteFailsWithTheSyncOfItsFile, even if the file was closed by a rotation whose sync failed.
func TestADurableWriteFailsWithTheSyncOfItsFile(t *testing.T) {
	if _, err := acrossMidnight(t, "request-20250309.jsonl"); !errors.Is(err, errSync) {
		t.Errorf("the write returned %v", err)
	}
}

// onSync replaces how files are synced.
func onSync(t *testing.T, sync func(*os.File) error) {
	was := disk.Sync
	t.Cleanup(func() { disk.Sync = was })
	disk.Sync = sync
}

// failFirstSync lets the first sync fail, and no other.
func failFirstSync(t *testing.T) {
	syncs := 0
	onSync(t, func(*os.File) error {
		if syncs++; syncs == 1 {
			return errSync
		}
		return nil
	})
}

// TestAFailedSyncFailsAllWritesBeforeIt: the kernel lets the next sync of the file succeed, without their data.
func TestAFailedSyncFailsAllWritesBeforeIt(t *testing.T) {
	j := open(t, t.TempDir(), &clock{t: noon})
	s := j.requests
	failFirstSync(t)
	s.syncing.Lock() // delays the writes between write and fsync
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() { ended <- j.Durably(requests("a")) }()
	}
	for written := false; !written; {
		s.mu.Lock()
		written = s.writes == cap(ended)
		s.mu.Unlock()
	}
	s.syncing.Unlock()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, errSync) {
			t.Errorf("a write before the failed sync returned %v", err)
		}
	}
	if err := j.Durably(requests("b")); err != nil {
		t.Errorf("a later write: %v", err)
	}
}

// TestAWriteIsNotOnDiskBecauseALaterOneIs, when the sync that both waited for failed. Which of the waiting writes goes
// on first is up to the scheduler.
func TestAWriteIsNotOnDiskBecauseALaterOneIs(t *testing.T) {
	j := open(t, t.TempDir(), &clock{t: noon})
	s := j.requests
	failFirstSync(t)
	write := func() int {
		n, err := s.appendLocked([]byte("{}\n"), true)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first, second := write(), write()
	if err := s.commit(first); !errors.Is(err, errSync) {
		t.Fatalf("the first write: %v", err)
	}
	if err := s.commit(write()); err != nil {
		t.Fatalf("a later write: %v", err)
	}
	if err := s.commit(second); !errors.Is(err, errSync) {
		t.Errorf("a write before the failed sync returned %v", err)
	}
}
