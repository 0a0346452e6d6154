package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no room")
	write := func(text string, err error) func(f *os.File) error {
		return func(f *os.File) error {
			_, writeErr := f.WriteString(text)
			return errors.Join(writeErr, err)
		}
	}
	if err := Replace(path, write("half", full)); !errors.Is(err, full) {
		t.Errorf("a failed write: %v", err)
	}
	expect(t, path, "old")
	if err := Replace(path, write("new", nil)); err != nil {
		t.Error(err)
	}
	expect(t, path, "new")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users may read it: %v, %v", info.Mode(), err)
	}
}

// expect also checks that the file is alone in its directory.
func expect(t *testing.T, path, content string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != content {
		t.Errorf("the file is %q, %v; want %q", b, err, content)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("files left: %v, %v", entries, err)
	}
}

func TestOfSeveralThatCreateAFileOneWins(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	read := make([]string, 8)
	var all sync.WaitGroup
	for i := range read {
		all.Go(func() {
			if err := Create(path, fmt.Sprint("content ", i)); err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			read[i] = string(b)
		})
	}
	all.Wait()
	for _, content := range read {
		expect(t, path, content)
	}
}

func TestOldUnfinishedFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "[a")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{".tmp-1": time.Hour, ".tmp-2": 0, "other": time.Hour} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveUnfinished(dir, time.Now()); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".tmp-2" || entries[1].Name() != "other" {
		t.Errorf("files left: %v, %v", entries, err)
	}
}
