package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandHasAnExample that the command line accepts, and says what it does.
func TestEveryCommandHasAnExample(t *testing.T) {
	known := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "wakecall ")
		known[path] = true
		for _, below := range c.Commands() {
			visit(below)
		}
		if c.HasSubCommands() {
			return
		}
		if len(c.Short) < 10 || !strings.Contains(c.Example, "wakecall "+path) {
			t.Errorf("%s: %q, %q", path, c.Short, c.Example)
		}
		for line := range strings.Lines(c.Example) {
			for part := range strings.SplitSeq(line, " | ") {
				if words := shellWords(part); len(words) > 0 && words[0] == "wakecall" {
					tryExample(t, words[1:])
				}
			}
		}
	}
	for _, c := range (&program{out: io.Discard, err: io.Discard}).root().Commands() {
		visit(c)
	}
	for path := range examples {
		if !known[path] {
			t.Errorf("there is no command %q", path)
		}
	}
}

// tryExample parses a command line as it is parsed before the command runs.
func tryExample(t *testing.T, words []string) {
	t.Helper()
	cmd, args, err := (&program{out: io.Discard, err: io.Discard}).root().Find(words)
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("wakecall %s: %v", strings.Join(words, " "), err)
	}
}

// shellWords splits a line at spaces outside quotes, up to a comment or a redirection.
func shellWords(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		for word := range strings.FieldsSeq(part) {
			if word == "#" || word == "<" || word == ">" {
				return words
			}
			words = append(words, word)
		}
	}
	return words
}

// TestHelpNamesOneDefault of a duration, not also that of the flag.
func TestHelpNamesOneDefault(t *testing.T) {
	if got := wakecall(t, nil, "", "push", "--help"); strings.Contains(got.out, "(default 0s)") ||
		!strings.Contains(got.out, "(default: the topic's)") {
		t.Error(got.out)
	}
}
