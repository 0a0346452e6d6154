package printable

import (
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

// Ignorable reports whether a reader does not see the character (Default_Ignorable_Code_Point, and other format
// characters): texts that look the same differ by it.
func Ignorable(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

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
