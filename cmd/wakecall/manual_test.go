package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, below := range cmd.Commands() {
		walk(below, visit)
	}
}

// TestEveryCommandHasAnExample that its own flags and arguments allow.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	walk((&program{}).root(), func(cmd *cobra.Command) {
		known[cmd.CommandPath()] = true
		if cmd.IsAvailableCommand() && !cmd.HasSubCommands() && !cmd.HasExample() {
			t.Errorf("%s has no example: add one in help.go", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, cmd, strings.TrimSpace(line))
		}
	})
	for path := range examples {
		if !known[path] {
			t.Errorf("help.go has %q, which is no command", path)
		}
	}
}

func checkExample(t *testing.T, shown *cobra.Command, line string) {
	t.Helper()
	words, ok := strings.CutPrefix(line, "wakecall ")
	if !ok {
		return // a comment, or the lines of a file
	}
	words, _, _ = strings.Cut(words, " > ")
	words, _, _ = strings.Cut(words, " < ")
	words, _, _ = strings.Cut(words, " | ")
	split, err := exec.Command("sh", "-c", `printf '%s\n' `+words).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	cmd, args, err := (&program{}).root().Find(strings.Split(strings.TrimSpace(string(split)), "\n"))
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil && cmd.Args != nil {
		err = cmd.Args(cmd, cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s shows %q: %v", shown.CommandPath(), line, err)
	}
}

func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if got := wakecall(t, nil, "", "manual", dir); got.code != 0 {
		t.Fatalf("code %d: %s", got.code, got.err)
	}
	walk((&program{}).root(), func(cmd *cobra.Command) {
		if cmd.IsAvailableCommand() {
			if _, err := os.Stat(filepath.Join(dir, pageName(cmd)+".1")); err != nil {
				t.Error(err)
			}
		}
	})
	page, err := os.ReadFile(filepath.Join(dir, "wakecall-push.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		".TH \"WAKECALL-PUSH\" 1", "wakecall\\-push \\- push one job\n", ".BI \"\\-\\-id \" \"ID\"\n",
		".RS\n.nf\nwakecall push order.close \\-\\-id order\\-42", ".BR wakecall (1)",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(string(page), "redis\\-nodes") {
		t.Error("the page of push lists keys of the configuration")
	}
}
