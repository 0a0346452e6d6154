package printable

import (
	"fmt"
	"io"
	"unicode/utf8"
)

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
