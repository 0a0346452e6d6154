package test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wakecall/wakecall/"

// mayImport lists for each package which others of this repository it may import: cmd → app → processes → queue,
// registry, callback, journal → conf. Packages below a package may also import its subtree; cmd and app wire
// everything.
var mayImport = map[string][]string{
	"conf":       {},
	"disk":       {},
	"client":     {},
	"migrations": {"disk"},
	"queue":      {"conf"},
	"seal":       {"disk"},
	"database":   {"migrations", "seal"},
	"registry":   {"conf", "database", "disk", "migrations", "printable", "seal"},
	"callback":   {"conf", "printable"},
	"journal":    {"conf", "disk", "member"},
	"member":     {},
	"activity":   {"queue"},
	"history":    {"database", "queue", "registry"},
	"recovery":   {"disk", "journal", "pershard", "queue"},
	"alert":      {"activity", "database", "history", "printable", "queue", "registry", "seal"},
	"drain":      {"queue", "registry"},
	"bulk":       {"database", "printable", "queue", "registry"},
	"record":     {"journal", "queue"},
	"pershard":   {},
	"printable":  {},
	"topicfile":  {"registry"},
	"demo":       {"client", "conf", "printable", "setup"},
	"setup":      append([]string{"admin", "health", "master", "printable", "seal"}, parts...),
	"health":     {"printable", "queue"},
	"logging":    {"conf", "journal", "printable"},
	"web":        {},
	"connlimit":  {},
	"loginlimit": {},
	"listen":     {"connlimit"},
	"pull":       {"pershard", "queue", "registry"},
	"gateway":    append([]string{"connlimit", "listen", "loginlimit", "pull", "seal"}, parts...),
	"importer":   append([]string{"seal"}, parts...),

	"topicmetric": {},
	"timer":       parts,
	"dispatcher":  append([]string{"activity", "topicmetric"}, parts...),
	// talks to a running master
	"admin": append([]string{"activity", "alert", "bulk", "health", "history", "listen", "loginlimit", "printable", "seal",
		"topicfile", "web", "master"}, parts...),
	"checker": append([]string{"health", "topicmetric"}, parts...),
	"server": append([]string{"connlimit", "listen", "member", "printable", "pull", "seal", "topicmetric", "web"},
		parts...),
	"master":  append([]string{"disk"}, parts...),
	"bench":   {"client", "conf"},
	"scripts": {},
	// the OpenAPI document; databases; time limits; a queue behind a gateway
	"test": {"database", "gateway", "migrations", "pull", "queue", "registry", "server", "timer"},
}

var parts = []string{"pershard", "queue", "database", "registry", "callback", "journal", "conf"}

// TestBoundaries: packages depend on each other in one direction only, and nothing that ships depends on test code.
func TestBoundaries(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-e", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(strings.ReplaceAll(line, module, "./"))
		name, imports := strings.TrimPrefix(fields[0], "./"), fields[1:]
		top, _, _ := strings.Cut(name, "/")
		allowed, listed := mayImport[top]
		if !listed && top != "cmd" && top != "app" {
			t.Errorf("%s is not in mayImport, which has %v", name, slices.Sorted(maps.Keys(mayImport)))
		}
		for _, path := range imports {
			used, ours := strings.CutPrefix(path, "./")
			usedTop, _, _ := strings.Cut(used, "/")
			switch {
			case !ours && path == "testing" && top != "test" && !strings.HasSuffix(name, "test"):
				t.Errorf("%s imports testing, which only packages whose names end in test may do", name)
			case !ours || usedTop == top:
			case top == "cmd" && usedTop != "test":
			case top == "app" && usedTop != "test" && usedTop != "cmd":
			case !slices.Contains(allowed, usedTop):
				t.Errorf("%s imports %s; of this repository it may import %v", name, used, allowed)
			}
		}
	}
}

// TestScriptsAreDescribed: each begins with its keys, arguments, result and the invariant it keeps, and is in the
// architecture's table.
func TestScriptsAreDescribed(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../queue/lua/*.lua")
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
