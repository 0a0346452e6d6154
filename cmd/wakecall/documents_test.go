package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	documented = regexp.MustCompile("(?m)^(?: {4,}| *\\$ )(wakecall .+)$|`(wakecall [^`]+)`")
	longFlag   = regexp.MustCompile(`(?:^|[ (\[])--([a-z][a-z-]*)`)
)

// TestDocumentedCommandsExist: every command in the documents, with its flags, is one of the program.
func TestDocumentedCommandsExist(t *testing.T) {
	pages := []string{"../../README.md", "../../CHANGELOG.md", "../../CONTRIBUTING.md"}
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
			found++
			if wrong := unknownIn(m[1] + m[2]); wrong != "" {
				t.Errorf("%s: %s: there is no %s", page, m[1]+m[2], wrong)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d commands found in the documents", found)
	}
}

// unknownIn returns the first command or flag of a command line that the program does not have.
func unknownIn(line string) string {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " | ")
	cmd := (&program{}).root()
	cmd.InitDefaultCompletionCmd()
	cmd.InitDefaultHelpCmd()
	for _, word := range strings.Fields(line)[1:] {
		if !cmd.HasSubCommands() || !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word) {
			break
		}
		below, _, err := cmd.Find([]string{word})
		if err != nil || below == cmd {
			return "command " + word
		}
		cmd = below
	}
	cmd.InheritedFlags() // merges them into Flags
	for _, m := range longFlag.FindAllStringSubmatch(strings.Split(line, " -- ")[0], -1) {
		if m[1] != "help" && cmd.Flags().Lookup(m[1]) == nil {
			return "flag --" + m[1] + " of " + cmd.CommandPath()
		}
	}
	return ""
}
