package registry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/pause"
)

// The snapshot is written to its file at most once per keepEvery, so many changes cost one write. A large one is
// written less often, so that writing takes at most one part in keepShare of the time.
const (
	keepEvery = time.Second
	keepShare = 30
)

func (r *Registry) mustKeep() {
	if r.opts.SnapshotFile == "" {
		return
	}
	select {
	case r.unkept <- struct{}{}:
	default:
	}
}

// keepOn writes snapshots until ctx is done. It runs concurrently with follow, because writing a large snapshot takes a
// second.
func (r *Registry) keepOn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.unkept:
		}
		if !pause.For(ctx, r.keepAlone()) {
			return
		}
	}
}

// keepAlone writes the snapshot, unless another process of this host is writing one; then it retries later. All
// processes learn of a change at the same time. If each of them encoded 100,000 topics, the next change would be 0.1 s
// late.
func (r *Registry) keepAlone() (pause time.Duration) {
	lock, err := os.OpenFile(r.opts.SnapshotFile+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return r.keep() // it reports the error of the directory
	}
	defer lock.Close()
	if errors.Is(disk.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		r.mustKeep()
		return keepEvery
	}
	return r.keep()
}

// keep writes the last snapshot to its file, unless it is already there, and returns how long to wait before the next
// write.
func (r *Registry) keep() (pause time.Duration) {
	s := r.Snapshot()
	if r.isKept(s) {
		return keepEvery
	}
	began := time.Now()
	err := writeSnapshot(r.opts.SnapshotFile, s)
	if err != nil && !r.keepFailed {
		r.opts.Logger.Warn("cannot write the registry's snapshot; until then, a restart without the database "+
			"begins "+
			"with an older one", "file", r.opts.SnapshotFile, "error", err)
	}
	if r.keepFailed = err != nil; r.keepFailed {
		r.mustKeep()
	}
	return max(keepEvery, keepShare*time.Since(began))
}

// isKept reports whether another process of this host has written the same revision, or a later one.
func (r *Registry) isKept(s *Snapshot) bool {
	return laterSnapshot(r.opts.SnapshotFile, s.readAt) || s.mark != "" && markInFile(r.opts.SnapshotFile) == s.mark
}

// writeSnapshot atomically replaces the file, readable by its owner only. After a power failure, the file holds either
// the old or the new snapshot.
func writeSnapshot(file string, s *Snapshot) error {
	write := func(f *os.File) error {
		w := bufio.NewWriterSize(f, 64<<10)
		// Synced first: with an old time it may soon be taken for a leftover.
		err := errors.Join(encodeSnapshot(w, s), w.Flush(), f.Sync())
		if err != nil || s.readAt.IsZero() {
			return err
		}
		return os.Chtimes(f.Name(), time.Time{}, s.readAt)
	}
	if err := disk.Replace(file, write); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// laterSnapshot reports whether the file holds a state that was read from the database after the given time. The
// processes of a host share the file, and each writes it when it ends, but a process that has not seen the last change
// must not undo it. The time is the file's modification time, so that the file need not be read.
func laterSnapshot(file string, at time.Time) bool {
	info, err := os.Stat(file)
	return err == nil && info.ModTime().After(at)
}
