package page

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

const escapeLen = len(`\u50ac`)

// Unescaped decodes escapes such as \u50ac in JSON, which may be truncated. It decodes only visible characters that a
// string may contain unescaped, so the JSON means the same.
func Unescaped(text string) string {
	if !strings.Contains(text, `\u`) || !strings.ContainsAny(strings.TrimLeft(text, " \t\r\n")[:1], `{["`) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		at := strings.IndexByte(text, '\\')
		if at < 0 || at+1 == len(text) {
			break
		}
		b.WriteString(text[:at])
		text = text[at:]
		r, n := escaped(text)
		if n == 0 {
			b.WriteString(text[:2])
			text = text[2:]
			continue
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String() + text
}

// escaped decodes the escape, or surrogate pair, at the beginning of a text and returns its length; 0 if it must not be
// decoded.
func escaped(text string) (r rune, n int) {
	r = codeUnit(text)
	n = escapeLen
	if utf16.IsSurrogate(r) {
		r = utf16.DecodeRune(r, codeUnit(text[escapeLen:]))
		n = 2 * escapeLen
	}
	if r == unicode.ReplacementChar || !unicode.IsPrint(r) || r == '"' || r == '\\' {
		return 0, 0
	}
	return r, n
}

// codeUnit returns the code unit of the escape at the beginning of a text; 0 if there is none.
func codeUnit(text string) rune {
	if len(text) < escapeLen || text[:2] != `\u` {
		return 0
	}
	n, err := strconv.ParseUint(text[2:escapeLen], 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
