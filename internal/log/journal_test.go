package log

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/wakecall/wakecall/internal/journal"
)

// errorLines reads the error files of a journal.
func errorLines(t *testing.T, dir string) (lines []journal.ErrorLine) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "error-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var l journal.ErrorLine // names are case-insensitive
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

func TestWarningsAndErrorsAreInTheJournal(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(journal.Options{Dir: dir, Process: "timer 1"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	out := slog.NewTextHandler(io.Discard, nil) //nolint:sloglint // DiscardHandler is enabled for no level
	log := slog.New(&errorLog{Handler: out, journal: j}).With("shard", "a")
	log.Info("nothing to see")
	log.Warn("shard does not answer", "bucket", 3, "error", errors.New("refused"))
	lines := errorLines(t, dir)
	if len(lines) != 1 || lines[0].Where != "shard does not answer" || lines[0].Error != "refused" ||
		lines[0].Context != "shard=a bucket=3" ||
		lines[0].Process != "timer 1" {
		t.Fatalf("lines = %+v", lines)
	}
}
