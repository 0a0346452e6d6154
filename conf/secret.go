package conf

import (
	"fmt"
	"io"

	"github.com/wakecall/wakecall/conf/address"
)

// Secret is text that is never printed: fmt, slog, JSON and YAML show <secret>, or nothing for an empty one.
type Secret string

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return address.Hidden
}

// Format covers the verbs that do not call String, such as %x and %#v.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, s.String()) }

// MarshalText covers JSON, YAML and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
