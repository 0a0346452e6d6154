// Package printabletest checks that the output of a program does not steer a terminal or a reader of lines.
package printabletest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wakecall/wakecall/internal/log/printable"
)

// Hostile forges lines, clears the screen, types on behalf of the user and reverses the following text if a terminal or
// a reader of lines interprets it.
const Hostile = "x\nFORGED level=ERROR\r\nFORGED\x1b[2J\x1b]0;t\x07\u009b31m\u0085FORGED\u2028FORGED\u2029" +
	"\u202eFORGED\u2066\x7f\x00\tend"

// Check fails the test if the text contains steering characters or a forged line.
func Check(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", what, text)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("%s has a line that is not its own: %q", what, line)
		}
		if k := strings.IndexFunc(line, func(r rune) bool { return r != '\t' && printable.Steers(r) }); k >= 0 {
			t.Errorf("%s has %q in it: …%q…", what, line[k:min(len(line), k+3)],
				line[max(0, k-20):min(len(line), k+20)])
		}
	}
}
