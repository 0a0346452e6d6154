package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptsAreDescribed: each begins with its keys, arguments, result and the invariant it keeps, and is in the
// table of docs/architecture/store.md.
func TestScriptsAreDescribed(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../docs/architecture/store.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../internal/*/lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "\nlocal")
		for _, part := range []string{"\n-- KEYS[1] ", "\n-- Returns ", "\n-- Keeps   "} {
			if !strings.Contains(head, part) {
				t.Errorf("%s does not begin with %q", file, part)
			}
		}
		if name := strings.TrimSuffix(filepath.Base(file), ".lua"); !strings.Contains(string(table), "`"+name+"`") {
			t.Errorf("docs/architecture/store.md does not describe %s", name)
		}
	}
}
