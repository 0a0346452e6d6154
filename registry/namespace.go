package registry

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A namespace is a topic whose name ends in ".*". Every name below it is a pull topic with the namespace's settings,
// which is made by its first use: it has no row here, and nothing is left of it in Redis when its last job is gone.
// Where names overlap the longest one counts, and a topic of its own above all.
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

func validNamespace(name string) error {
	if len(name) > maxNamespaceName || !namespaceName.MatchString(name) {
		return malformed("name", "%.80q is not the name of a namespace: one to three parts of a-z, 0-9, dash, underline "+
			"and tilde, with dots between them, and .* at the end", name)
	}
	return nil
}

// Namespace is the namespace that has a topic; nil when it is a topic of its own, or none.
func (s *Snapshot) Namespace(topic string) *Topic {
	if s.Topics.Get(topic) != nil || IsNamespace(topic) {
		return nil
	}
	for at := strings.LastIndexByte(topic, '.'); at > 0; at = strings.LastIndexByte(topic[:at], '.') {
		if ns := s.Topics.Get(topic[:at] + namespaceEnd); ns != nil && at+1 < len(topic) {
			return ns
		}
	}
	return nil
}

// Topic finds a topic: one of its own, or one of a namespace, which need not have any jobs. It returns nil for a name
// that has no settings.
func (s *Snapshot) Topic(name string) *Topic {
	t := s.TopicOrNamespace(name)
	if t == nil || t.Name == name {
		return t
	}
	if len(name) > MaxMemberName || !memberName.MatchString(name) {
		return nil
	}
	member := *t
	member.Name = name
	return &member
}

// TopicOrNamespace finds what has the settings of a name: the topic itself, or its namespace under the namespace's
// own name. For whoever asks on every push: Topic checks the name and copies the namespace.
func (s *Snapshot) TopicOrNamespace(name string) *Topic {
	if t := s.Topics.Get(name); t != nil {
		return t
	}
	return s.Namespace(name)
}

// EscapeName makes a part of a topic's name of any text, reversibly: an upper-case letter becomes a tilde and the
// lower-case one, and every other byte but a-z, 0-9, dash and underline a tilde and two hexadecimal digits; of those
// that would begin with a letter, a tilde more.
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

// UnescapeName is the text that EscapeName made a name of; ok is false for a name that it did not make.
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
