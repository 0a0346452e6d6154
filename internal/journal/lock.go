package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

const (
	lockEvery = time.Second            // how often a waiting process tries the lock, on average
	beatEvery = 500 * time.Millisecond // its holder shows that it does not hang
	hungAfter = 2 * time.Second        // without that, another process takes the lock over
)

// WithLock calls work while this process holds the journal's lock of that name, until ctx is done: one process at a
// time, unless that one hangs. A process that was stopped may continue after another has taken the lock over; the
// context of its work then ends within half a second. With prefer, it takes the lock over from processes without.
func WithLock(ctx context.Context, dir, name string, prefer bool, work func(context.Context)) error {
	path := filepath.Join(dir, "."+name+".lock")
	for {
		f, err := tryLock(path, prefer)
		if err != nil {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if f != nil {
			hold(ctx, path, f, work)
		}
		select {
		case <-time.After(lockEvery/2 + rand.N(lockEvery)): // spread, so that the first of them is early
		case <-ctx.Done():
			return nil
		}
	}
}

// preferred is the content of the lock file of a process that is preferred.
const preferred = "preferred"

// tryLock returns nil if another process holds the lock. If that one hangs, it removes the file and locks a new one.
func tryLock(path string, prefer bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = disk.Flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil && isAt(f, path):
		err = f.Truncate(0)
		if err == nil && prefer {
			_, err = f.WriteString(preferred)
		}
		if err == nil {
			return f, nil
		}
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = nil
		if info, statErr := f.Stat(); statErr == nil && isAt(f, path) &&
			(time.Since(info.ModTime()) > hungAfter || prefer && info.Size() == 0) {
			f.Close()
			if err = os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
				return tryLock(path, prefer)
			}
			return nil, err
		}
	}
	f.Close()
	return nil, err
}

func hold(ctx context.Context, path string, f *os.File, work func(context.Context)) {
	defer f.Close()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		t := time.NewTicker(beatEvery)
		defer t.Stop()
		for isAt(f, path) {
			_ = os.Chtimes(path, time.Time{}, time.Now())
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	})
	work(ctx)
	cancel()
	wg.Wait()
}

// Join counts this process among those that write to a journal, until it ends or calls leave, which reports whether it
// was the last one.
func Join(dir string) (leave func() (last bool), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".running.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = disk.Flock(f, syscall.LOCK_SH)
	}
	if err != nil {
		return nil, fmt.Errorf("join the journal in %s: %w", dir, err)
	}
	return func() bool {
		defer f.Close()
		return disk.Flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil
	}, nil
}
