package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutboxOfTheGuide runs the commands of docs/guides/outbox.md in their order, and finds what the page says that one
// sees.
func TestOutboxOfTheGuide(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	page, err := os.ReadFile("../docs/guides/outbox.md")
	must(t, err)
	text := strings.NewReplacer("http://127.0.0.1:6789", i.Base, "data/api-token", filepath.Join(i.Data, "api-token")).
		Replace(string(page))
	sees := []string{
		"", `"name":"order.close"`, "", "", "", "order-42", "", "", "order-42", "", "job_not_found",
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
