package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wakecall/wakecall/internal/disk"
)

// copyTries is how often a copy begins anew because a day's file was compressed meanwhile.
const copyTries = 3

// Copy copies a journal as it is now, while others write to it, into a directory that it makes. It leaves out locks.
func Copy(dir, to string) (err error) {
	for range copyTries {
		if err = os.RemoveAll(to); err != nil {
			return err
		}
		if err = copyAll(dir, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func copyAll(dir, to string) error {
	if err := CheckFormat(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the journal: %w", err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	// The attempts come last: a job whose push is copied must not lack its end.
	for _, attempts := range []bool{false, true} {
		for _, e := range entries {
			name := e.Name()
			temporary, _ := filepath.Match(disk.Unfinished, name)
			if temporary || strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".new") || !isFile(dir, e) ||
				strings.HasPrefix(name, string(Attempts)+"-") != attempts {
				continue
			}
			if err := CopyFile(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
				return fmt.Errorf("copy %s: %w", filepath.Join(dir, name), err)
			}
		}
	}
	return disk.SyncDir(to)
}

// CopyFile copies a file up to its present end, or to the end of its last line.
func CopyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if strings.HasSuffix(from, suffix) {
		if size, err = wholeLines(f, size); err != nil {
			return err
		}
	}
	return disk.Replace(to, func(w *os.File) error {
		_, err := io.Copy(w, io.NewSectionReader(f, 0, size))
		return err
	})
}

// wholeLines returns the size of a file without an unfinished last line.
func wholeLines(f *os.File, size int64) (int64, error) {
	b := make([]byte, 64<<10)
	for size > 0 {
		begin := max(0, size-int64(len(b)))
		n, err := f.ReadAt(b[:size-begin], begin)
		if err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(b[:n], '\n'); at >= 0 {
			return begin + int64(at) + 1, nil
		}
		size = begin
	}
	return 0, nil
}
