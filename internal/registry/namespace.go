package registry

import (
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
)

// A namespace is a topic whose name ends in ".*". Every name below it is a pull topic with the namespace's settings,
// created by its first use. It has no row here, and after its last job nothing of it is left in Redis. If namespaces
// overlap, the longest name applies. A topic with its own row takes precedence over all of them.
const namespaceEnd = ".*"

var (
	namespaceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_~-]*(\.[a-z0-9_~-]+){0,2}\.\*$`)
	memberName    = regexp.MustCompile(`^[a-z0-9][a-z0-9._~-]*$`)
)

// The longest names, in bytes. MaxMemberName has room for two names of 255 bytes in which each byte is escaped.
const (
	maxNamespaceName = 1024
	MaxMemberName    = 2048
)

// IsNamespace reports whether a topic's name is that of a namespace.
func IsNamespace(name string) bool { return strings.HasSuffix(name, namespaceEnd) }

// namespacesOf returns the names of the namespaces that a topic could be in, the longest first.
func namespacesOf(topic string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := strings.LastIndexByte(topic, '.'); at > 0; at = strings.LastIndexByte(topic[:at], '.') {
			if at+1 < len(topic) && !yield(topic[:at]+namespaceEnd) {
				return
			}
		}
	}
}

func validNamespace(name string) error {
	if len(name) > maxNamespaceName || !namespaceName.MatchString(name) {
		return Malformed("name", "field.namespace", name)
	}
	return nil
}

// EscapeName turns any text into a part of a topic's name, reversibly. An upper-case letter becomes a tilde and its
// lower-case form. Every other byte except a-z, 0-9, dash and underscore becomes a tilde and two hexadecimal digits,
// with a second tilde if the first digit would be a letter.
func EscapeName(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		case c >= 'A' && c <= 'Z':
			b.WriteByte('~')
			b.WriteByte(c + 'a' - 'A')
		case c < 0xa0:
			fmt.Fprintf(&b, "~%02x", c)
		default:
			fmt.Fprintf(&b, "~~%02x", c)
		}
	}
	return b.String()
}

// UnescapeName is the inverse of EscapeName. ok is false for a name that EscapeName does not return.
func UnescapeName(name string) (text string, ok bool) {
	var b strings.Builder
	for rest := name; rest != ""; {
		if rest[0] != '~' {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		hex := strings.TrimPrefix(rest[1:], "~")
		if hex != "" && hex[0] >= 'a' && hex[0] <= 'z' && len(hex) == len(rest)-1 {
			b.WriteByte(hex[0] - 'a' + 'A')
			rest = hex[1:]
			continue
		}
		if len(hex) < 2 {
			return "", false
		}
		c, err := strconv.ParseUint(hex[:2], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		rest = hex[2:]
	}
	return b.String(), EscapeName(b.String()) == name
}
