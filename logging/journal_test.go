package logging

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/wakecall/wakecall/journal"
)

func TestWarningsAndErrorsStandInTheJournal(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(journal.Options{Dir: dir, Process: "timer 1"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	log := slog.New(&errorLog{Handler: slog.NewTextHandler(io.Discard, nil), journal: j}).With("shard", "a")
	log.Info("nothing to see")
	log.Warn("shard does not answer", "bucket", 3, "error", errors.New("refused"))
	var lines []journal.ErrorLine
	for line, err := range journal.ReadErrors(dir, journal.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) != 1 || lines[0].Where != "shard does not answer" || lines[0].Error != "refused" ||
		lines[0].Context != "shard=a bucket=3" ||
		lines[0].Process != "timer 1" {
		t.Fatalf("lines = %+v", lines)
	}
}
