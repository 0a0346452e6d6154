package journal

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/test/wait"
)

// locker works under a lock until stop is called.
type locker struct {
	mu    sync.Mutex
	holds bool
	stop  func()
}

func newLocker(t *testing.T, dir string, prefer bool) *locker {
	t.Helper()
	l := &locker{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- WithLock(ctx, dir, "work", prefer, func(ctx context.Context) {
			l.set(true)
			<-ctx.Done()
			l.set(false)
		})
	}()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.stop)
	return l
}

func (l *locker) set(holds bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = holds
}

func (l *locker) works() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds
}

// TestOneProcessHoldsALock: the next one when it stops, and a preferred one at once.
func TestOneProcessHoldsALock(t *testing.T) {
	dir := t.TempDir()
	first := newLocker(t, dir, false)
	wait.For(t, "the first to work", first.works)
	second := newLocker(t, dir, false)
	preferred := newLocker(t, dir, true)
	wait.For(t, "the preferred one to work alone",
		func() bool { return preferred.works() && !first.works() && !second.works() })
	first.stop()
	preferred.stop()
	wait.For(t, "the second to work", second.works)
}

// TestAHungProcessLosesItsLock, and stops its work when it goes on.
func TestAHungProcessLosesItsLock(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, ".work.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Flock(f, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	other := newLocker(t, dir, false)
	wait.For(t, "another process to work", other.works)
	hold(t.Context(), f.Name(), f, func(ctx context.Context) { <-ctx.Done() }) // or it would never return
	if !other.works() {
		t.Error("the process that was hung took its lock back")
	}
}

// TestTheLastProcessLeaves.
func TestTheLastProcessLeaves(t *testing.T) {
	dir := t.TempDir()
	var leaves []func() bool
	for range 3 {
		leave, err := Join(dir)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for i, leave := range leaves {
		if last := leave(); last != (i == len(leaves)-1) {
			t.Errorf("process %d was the last one: %v", i, last)
		}
	}
}
