package log

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/log/printable/printabletest"
)

// TestAnEventIsOneLineOfTheLog, whatever a message, a name or a value contains, in both formats and in the error
// journal.
func TestAnEventIsOneLineOfTheLog(t *testing.T) {
	long := printabletest.Hostile + strings.Repeat("é\n", 1<<19) + "\xff\xfe"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		cfg := conf.Config{}
		cfg.Log.Format = format
		dir := t.TempDir()
		j, err := journal.Open(journal.Options{Dir: dir, Process: "server"})
		if err != nil {
			t.Fatal(err)
		}
		base := New(&cfg, &out, "server "+printabletest.Hostile)
		log := Journaled(base, j)
		for n, value := range []string{
			printabletest.Hostile, long, "\xff" + printabletest.Hostile, `a" level=ERROR msg="forged`,
		} {
			out.Reset()
			log.With(printabletest.Hostile, value).WithGroup("g").Error(value, "id", value, "error", errors.New(value),
				"bytes", []byte(value), printabletest.Hostile, value)
			printabletest.Check(t, fmt.Sprintf("the log as %s, %d", format, n), out.String())
			if strings.Count(out.String(), "\n") != 1 || (format == "json" && !json.Valid(out.Bytes())) {
				t.Errorf("an event has %d lines as %s", strings.Count(out.String(), "\n"), format)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		lines := errorLines(t, dir)
		if len(lines) != 4 {
			t.Errorf("4 events are %d lines of the journal", len(lines))
		}
		for _, line := range lines {
			if line.Process != "server" {
				t.Errorf("a line of the journal: %+v", line.Process)
			}
		}
	}
}

// TestContextOfAnErrorIsNotForged: an id that looks like a pair of the context is quoted.
func TestContextOfAnErrorIsNotForged(t *testing.T) {
	r := slog.NewRecord(time.Now(), slog.LevelError, "m", 0)
	r.Add("id", "1 topic=other", "topic", "mine", "empty", "")
	if got := (&errorLog{}).line(r).Context; got != `id="1 topic=other" topic=mine empty=""` {
		t.Errorf("the context is %s", got)
	}
}
