package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSchedulesOfTheGuide runs the commands of docs/guides/schedules.md in their order, and finds what the page says
// that one sees.
func TestSchedulesOfTheGuide(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	page, err := os.ReadFile("../docs/guides/schedules.md")
	must(t, err)
	text := strings.NewReplacer("http://127.0.0.1:6789", i.Base, "data/api-token", filepath.Join(i.Data, "api-token")).
		Replace(string(page))
	sees := []string{
		"", `"name":"reports"`, `T00:00:00.000Z"`, "0 8 * * 1-5 Asia/Shanghai", "schedule report unchanged",
		"pushed reports report!", "schedule report is paused", "schedule report is active", "5 occurrences; none was pushed",
		"deleted schedule report",
	}
	commands := fences(text, "sh")
	if len(commands) != len(sees) {
		t.Fatalf("the page has %d commands; this test knows what to see after %d", len(commands), len(sees))
	}
	reader := newReader(t)
	for n, command := range commands {
		reader.types(command, sees[n])
	}
}
