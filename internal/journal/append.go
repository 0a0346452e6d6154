package journal

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/internal/journal/member"
)

// Members of a line that are zero are omitted.

// beginLine appends ts, which has to be the first member. ts is now unless the line has a time.
func beginLine(b []byte, ts, now time.Time) []byte {
	if ts.IsZero() {
		ts = now
	}
	b = append(b, lineStart...)
	return append(member.AppendTime(b, ts), '"')
}

// endLine ends the line that begins at start.
func endLine(b []byte, start int) []byte {
	b = append(b, '}')
	if line := b[start:]; mayNeedEscapes(line) {
		b = append(b[:start], escapeControls(line)...)
	}
	return append(b, '\n')
}

// mayNeedEscapes reports whether a line has the first byte of a character that escapeControls escapes.
func mayNeedEscapes(line []byte) bool {
	return bytes.IndexByte(line, 0x7f) >= 0 || bytes.IndexByte(line, 0xc2) >= 0 || bytes.IndexByte(line, 0xe2) >= 0
}

// escapeControls escapes characters that JSON allows in strings, but that a terminal would interpret, or where some
// readers would split a line: control characters, and the line separators outside ASCII.
func escapeControls(line []byte) []byte {
	escaped := make([]byte, 0, len(line)+len(line)/8)
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = append(escaped, line[:size]...)
		}
		line = line[size:]
	}
	return escaped
}

func appendText[T ~string](b []byte, name string, text T) []byte {
	switch {
	case text == "":
		return b
	case !utf8.ValidString(string(text)):
		return appendBytes(b, name, []byte(text))
	}
	return member.Text(b, name, text)
}

// appendBytes appends bytes that may be empty, in base64 when they are not UTF-8.
func appendBytes(b []byte, name string, text []byte) []byte {
	if !utf8.Valid(text) {
		return member.Value(b, name+suffix64, text)
	}
	return member.Text(b, name, text)
}

func appendInt[T ~int | ~int64](b []byte, name string, n T) []byte {
	if n == 0 {
		return b
	}
	return member.Int(b, name, n)
}

// appendMillis appends a time in Unix milliseconds.
func appendMillis(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return member.Int(b, name, t.UnixMilli())
}

func appendDuration(b []byte, name string, d, unit time.Duration) []byte {
	if d == 0 {
		return b
	}
	return member.Float(b, name, float64(d)/float64(unit))
}

func secondsOf(durations []time.Duration) (seconds []float64) {
	for _, d := range durations {
		seconds = append(seconds, d.Seconds())
	}
	return seconds
}
