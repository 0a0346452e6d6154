package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wakecall/wakecall/"

// roles are the packages of processes: cmd → internal/app → roles → the rest of internal. What a room of internal/ does
// not need to know, it must not import.
var roles = []string{"cmd", "master", "server", "timer", "dispatcher", "checker", "admin", "gateway"}

// TestBoundaries: packages depend on each other in one direction only, and nothing that ships depends on test code.
func TestBoundaries(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-e", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		for _, path := range fields[1:] {
			used, ours := strings.CutPrefix(path, module)
			if why := forbidden(name, used, ours); why != "" {
				t.Errorf("%s imports %s: %s", name, used, why)
			}
		}
	}
}

func forbidden(name, used string, ours bool) string {
	top, _, _ := strings.Cut(name, "/")
	usedTop, _, _ := strings.Cut(used, "/")
	app := strings.HasPrefix(name, "internal/app")
	switch {
	case top == "test" || top == "cmd" && used == "test/bench":
		return ""
	case !ours && used == "testing" && !strings.HasSuffix(name, "test"):
		return "only packages whose names end in test may"
	case !ours:
		return ""
	case usedTop == "test":
		return "nothing that ships depends on test code"
	case top == "client":
		return "the client needs the standard library only"
	case top == "internal" && !app && slices.Contains(roles, usedTop):
		return "internal packages must not import a process"
	case usedTop == "gateway" && top != "gateway" && !app && top != "cmd":
		return "the core must work without the gateways"
	}
	return ""
}

// TestScriptsAreDescribed: each begins with its keys, arguments, result and the invariant it keeps, and is in the
// architecture's table.
func TestScriptsAreDescribed(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../internal/queue/lua/*.lua")
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
			t.Errorf("docs/architecture.md does not describe %s", name)
		}
	}
}
