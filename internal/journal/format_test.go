package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestAJournalOfAnotherFormatIsRefused with the way out, and not touched.
func TestAJournalOfAnotherFormatIsRefused(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"earlier lines":    {"request-20251016.jsonl.gz": ""},
		"an earlier start": {identityName: "X\n"},
		"an earlier one":   {"request-20251016.jsonl": "", formatName: "1\n"},
		"a later one":      {"request-20251016.jsonl": "", formatName: "3\n"},
	} {
		dir := t.TempDir()
		for file, content := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(Options{Dir: dir})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), dir) ||
			!strings.Contains(err.Error(), "an empty data_dir") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if err := CheckFormat(dir); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(dir); len(left) != len(files) || err != nil {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// TestManyProcessesBeginAJournal at once, and continue it.
func TestManyProcessesBeginAJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	if err := CheckFormat(dir); err != nil {
		t.Errorf("none yet: %v", err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			j, err := Open(Options{Dir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(j.Requests([]RequestLine{{Op: OpPush, Topic: "t", ID: "x"}}), j.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := CheckFormat(dir); err != nil {
		t.Error(err)
	}
}
