package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Steers reports whether a terminal or a reader of lines may interpret the character instead of showing it.
func Steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || turns(r)
}

// turns reports whether the character changes the direction of the following text.
func turns(r rune) bool { return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' }

// Line returns a text for one line or cell.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case turns(r):
			return utf8.RuneError
		case Steers(r):
			return ' '
		}
		return r
	}, s)
}

// Lines returns a text of several lines.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if Steers(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// JSON writes JSON to W with steering characters escaped, which does not change its meaning. Each write must be a whole
// document, such as the encoders of encoding/json and log/slog produce.
type JSON struct{ W io.Writer }

// Write implements io.Writer.
func (j JSON) Write(b []byte) (int, error) {
	if _, err := j.W.Write(escapeSteering(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escapeSteering does not escape characters below a space: encoding/json has escaped them in strings, and elsewhere
// they are layout.
func escapeSteering(b []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(b); {
		r, size := rune(b[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(b[i:])
		}
		if r > ' ' && Steers(r) {
			out = fmt.Appendf(append(out, b[done:i]...), `\u%04x`, r)
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return b
	}
	return append(out, b[done:]...)
}
