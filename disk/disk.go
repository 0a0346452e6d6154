package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Unfinished matches the names of files while they are written.
const Unfinished = ".tmp-*"

// Flock is flock(2). The lock ends with the file's descriptor, also when the process is killed.
func Flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Replace writes a file that only its owner may read, in place of the one of that name. It is the old one until all of
// the new one is on the disk.
func Replace(path string, write func(*os.File) error) error {
	return place(path, write, os.Rename)
}

// Create writes a file that only its owner may read, unless there is one. Of several processes that do so at once one
// wins, and none reads half of it.
func Create(path, content string) error {
	write := func(f *os.File) error {
		_, err := f.WriteString(content)
		return err
	}
	err := place(path, write, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// place writes a file under another name, and gives it its own when it is on the disk.
func place(path string, write func(*os.File) error, name func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, Unfinished) // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes a new or renamed file of a directory survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// RemoveUnfinished removes the unfinished files of processes that were killed. It leaves those that were written to in
// the last minute: several processes may be writing.
func RemoveUnfinished(dir string, now time.Time) error {
	names, err := filepath.Glob(filepath.Join(dir, Unfinished))
	failed := err
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
