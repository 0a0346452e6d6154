package address

import (
	"regexp"
	"strings"
)

// Hidden is displayed in place of a password.
const Hidden = "<secret>"

var secretParameter = regexp.MustCompile(`(?i)([?&][a-z_]*(?:pass|pwd|secret|token|key)[a-z_]*=)[^&#]*`)

// Mask hides the passwords in a URL or DSN, valid or not, and keeps what helps to recognize it.
func Mask(s string) string {
	if strings.HasPrefix(s, "sqlite:") {
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
		return scheme + maskPorts(secretParameter.ReplaceAllString(rest, "${1}"+Hidden))
	}
	user, _, hasPassword := strings.Cut(rest[:at], ":")
	if !hasPassword {
		user = "" // text without a colon before the @ may be a password
	} else {
		user += ":"
	}
	return scheme + user + Hidden + secretParameter.ReplaceAllString(rest[at:], "${1}"+Hidden)
}

var notPort = regexp.MustCompile(`:[^/,;?]*[^0-9/,;?][^/,;?]*`)

// maskPorts hides a port that is not a number: it may be a password whose @host is missing.
func maskPorts(s string) string {
	if strings.HasPrefix(s, "[") { // an IPv6 address has colons of its own
		return s
	}
	return notPort.ReplaceAllString(s, ":"+Hidden)
}
