package master

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/master/child"
)

// lock ensures that no other master uses the directory. unclean reports whether the last master was killed while it
// held the lock.
func lock(ctx context.Context, dir string) (unlock func(), unclean bool, err error) {
	path := filepath.Join(dir, child.LockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("lock the data directory: %w", err)
	}
	lockErr := flock(ctx, f)
	pid, err := os.ReadFile(path)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case lockErr != nil || err != nil:
		err = fmt.Errorf("another master (pid %s) runs on %s: stop it first, or set data_dir to another directory",
			strings.TrimSpace(string(pid)), dir)
	default:
		if err = writeLock(f, os.Getpid()); err != nil {
			err = fmt.Errorf("lock the data directory: %w", err)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, false, err
	}
	return func() {
		_ = f.Truncate(0)
		_ = f.Close() // the file is kept: removing it would race with another master's lock
	}, len(pid) > 0, nil
}

func writeLock(f *os.File, pid int) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

const (
	lockCheck    = 500 * time.Millisecond // how long a process that checks for a master holds the lock
	lockShutdown = 10 * time.Second       // how long a child that shuts down a dead master's redis-server holds it
)

// flock waits for processes that hold the lock but are not a master.
func flock(ctx context.Context, f *os.File) error {
	for began := time.Now(); ; {
		err := disk.Flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		waited := time.Since(began)
		if err == nil || waited > lockShutdown || waited > lockCheck && ownerLives(f) {
			return err
		}
		if !pause.For(ctx, 25*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// ownerLives reports whether the process in the lock file runs. While a master starts, the file is empty.
func ownerLives(f *os.File) bool {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // the error is io.EOF
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
