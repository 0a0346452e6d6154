package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wakecall/wakecall/internal/disk"
)

const (
	formatName = ".format"
	format     = "2"
)

// ErrFormat is the error of a journal of another format.
var ErrFormat = errors.New("was written by another version of Wakecall: start with an empty Redis and an empty " +
	"data_dir, or drain it with the commit that wrote it")

// begin creates a journal's directory, and its format file before any other file.
func begin(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := CheckFormat(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, formatName)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return disk.Create(path, format+"\n")
}

// CheckFormat returns ErrFormat for a journal that this version can neither read nor continue. A directory without a
// journal is in order.
func CheckFormat(dir string) error {
	begun, err := isBegun(dir) // checked first: another process may begin the journal now
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(dir, formatName))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !begun:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the format of the journal: %w", err)
	case strings.TrimSpace(string(b)) != format:
		return fmt.Errorf("%s %w", dir, ErrFormat)
	}
	return nil
}

// isBegun reports whether a directory has a journal.
func isBegun(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, identityName)); err == nil {
		return true, nil
	}
	files, err := listFiles(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(files) > 0, err
}
