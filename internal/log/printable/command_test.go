package printable

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hostile are ids, names and paths that a shell, a terminal or a flag parser would interpret.
var hostile = []string{
	"order-42", "a b", "", " ", "x; id", "$(id)", "`id`", "a'b", `a\`, `'; id; '`, `"$HOME"`, "*", "~", "!!", "a&&id", "#a",
	"-x", "--config=/tmp/x", "a\nid", "a\x1b[201~\nid", "a\u202eb", "a\u200bb", "a\ufe0fb'\\", "{x,y}", "漢字 😀", "a=b", "%1", "=ls",
}

// TestPastedCommandsAreInert: bash passes the arguments on unchanged, and runs nothing else. Other shells run nothing
// else either, even if they do not know the quotes of characters that a terminal interprets.
func TestPastedCommandsAreInert(t *testing.T) {
	lines := [][]string{hostile}
	for _, text := range hostile {
		lines = append(lines, []string{"topic", text})
	}
	for _, shell := range []string{"bash", "dash"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("SKIPPED: %s is not installed", shell)
			continue
		}
		for _, args := range lines {
			line := Command("show", args...)
			out, err := exec.Command(shell, "-c", `show() { printf '%s\0' "$@"; }; `+line).Output()
			got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
			if got[0] == "--" {
				got = got[1:]
			}
			same := slices.Equal(got, args) || shell != "bash" && strings.Contains(line, "$'") && len(got) == len(args)
			if err != nil || !same || strings.ContainsFunc(line, hidden) {
				t.Errorf("%s got %q of %q, %v", shell, got, line, err)
			}
		}
	}
	if got, want := Command("wakecall get", "order.close", "-x"), "wakecall get -- order.close -x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestEveryPrintedCommandIsQuoted: no text of the program puts a value into a command line for people other than by Command
// and Word.
func TestEveryPrintedCommandIsQuoted(t *testing.T) {
	const root = "../../.."
	value := regexp.MustCompile("(wakecall( -?-?[a-z]+)+|add --[a-z]+|\\b(cat|chown|cd|curl|export|mkdir|rm)( -[a-zA-Z]+)*)" +
		"( %(\\[\\d\\])?[svq]| \\{\\d|[ =]\" \\+ [a-z]+[^.\\w])")
	quoted := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"test", "node_modules", ".git", "dist", "docs"}, d.Name()):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" && filepath.Ext(path) != ".json", strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if value.MatchString(line) && !strings.Contains(line, "printable.Word(") {
				t.Errorf("%s prints a value without quoting it: %s", path, line)
			}
			quoted += strings.Count(line, "printable.Command(") + strings.Count(line, "printable.Word(")
		}
		return err
	})
	if err != nil || quoted < 10 {
		t.Errorf("%d commands found, %v", quoted, err)
	}
}
