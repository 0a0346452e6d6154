package conf

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
)

// Masked is displayed in place of a secret.
const Masked = "<secret>"

// Secret is text that no format displays: fmt, slog, JSON and YAML all print <secret>, or nothing for an empty one.
type Secret string

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Masked
}

// Format covers the verbs that do not call String, such as %x and %#v.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText covers JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

var secretParameter = regexp.MustCompile(`(?i)([?&][a-z_]*(?:pass|pwd|secret|token|key)[a-z_]*=)[^&#]*`)

// maskURL hides the passwords in a URL or DSN, valid or not, and keeps what helps to recognize it.
func maskURL(s string) string {
	if strings.HasPrefix(s, sqliteScheme) {
		return s
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "", s
	} else {
		scheme += "://"
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return scheme + maskPorts(secretParameter.ReplaceAllString(rest, "${1}"+Masked))
	}
	user, _, hasPassword := strings.Cut(rest[:at], ":")
	if !hasPassword {
		user = "" // text without a colon before the @ may be a password
	} else {
		user += ":"
	}
	return scheme + user + Masked + secretParameter.ReplaceAllString(rest[at:], "${1}"+Masked)
}

var notPort = regexp.MustCompile(`:[^/,;?]*[^0-9/,;?][^/,;?]*`)

// maskPorts hides a port that is not a number: it may be a password whose @host is missing.
func maskPorts(s string) string {
	if strings.HasPrefix(s, "[") { // an IPv6 address has colons of its own
		return s
	}
	return notPort.ReplaceAllString(s, ":"+Masked)
}
