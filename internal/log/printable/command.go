package printable

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Command returns a command line for people to paste: a command and its arguments, none of which is taken for a flag.
func Command(command string, args ...string) string {
	words := []string{command}
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
		words = append(words, "--")
	}
	for _, arg := range args {
		words = append(words, Word(arg))
	}
	return strings.Join(words, " ")
}

// unquoted are characters that no shell interprets, so that most words need no quotes.
const unquoted = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:,@"

// Word quotes a text as one word of a command line. Backslashes are outside the quotes, because fish interprets them
// there. Characters that a terminal interprets, or that nobody sees, are escaped as bash, zsh and ksh read them; other
// shells run nothing of such a word, because it has no further quote.
func Word(text string) string {
	if text != "" && strings.Trim(text, unquoted) == "" {
		return text
	}
	if !strings.ContainsFunc(text, hidden) {
		return "'" + strings.NewReplacer(`'`, `'\''`, `\`, `'\\'`).Replace(text) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == '\'' || r == '\\' || hidden(r) {
			for _, c := range []byte(text[:size]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	b.WriteByte('\'')
	return b.String()
}

func hidden(r rune) bool { return Steers(r) || Ignorable(r) || r == utf8.RuneError }
