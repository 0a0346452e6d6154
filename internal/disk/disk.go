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

// Unfinished is the pattern of the temporary names of files that are being written.
const Unfinished = ".tmp-*"

// Flock calls flock(2), and retries if a signal interrupts it. The kernel releases the lock when the file is closed or
// the process is killed.
func Flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Replace writes a file that only its owner may read, and atomically replaces an existing one. Until the new content is
// on disk, path has the old content.
func Replace(path string, write func(*os.File) error) error {
	return writeAs(path, write, os.Rename)
}

// Create writes a file that only its owner may read, unless path exists. If several processes create it at once, one
// wins, and none of them reads a partial file.
func Create(path, content string) error {
	write := func(f *os.File) error {
		_, err := f.WriteString(content)
		return err
	}
	err := writeAs(path, write, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return SyncDir(filepath.Dir(path)) // the one that created it may not have synced it
	}
	return err
}

// writeAs writes a file under a temporary name. Once the content is on disk, it calls name to give the file its final
// name.
func writeAs(path string, write func(*os.File) error, name func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, Unfinished) // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(write(f), Sync(f), f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir syncs a directory, so that files created or renamed in it survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(Sync(d), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// RemoveUnfinished removes temporary files that killed processes left in a directory. It keeps those modified in the
// last minute, since other processes may be writing them.
func RemoveUnfinished(dir string, now time.Time) error {
	names, err := fs.Glob(os.DirFS(dir), Unfinished) // filepath.Glob would interpret a bracket in dir as a pattern
	failed := err
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// Space returns the free space for this user, and the size, of the file system of a directory.
func Space(dir string) (free, size int64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	block := int64(fs.Bsize) //nolint:unconvert // the types differ between systems
	return int64(fs.Bavail) * block, int64(fs.Blocks) * block, nil
}
