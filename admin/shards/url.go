package shards

import (
	"errors"
	"regexp"
	"strings"
)

// hiddenPassword is shown instead of a stored password.
const hiddenPassword = "***"

var sentinelPassword = regexp.MustCompile(`([?&;]sentinel_password=)[^&;]*`)

// maskURL hides what is secret in a shard's URL.
func maskURL(url string) string {
	head, query, asked := strings.Cut(url, "?")
	scheme, rest, ok := strings.Cut(head, "://")
	if !ok {
		return url
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if user, _, has := strings.Cut(rest[:at], ":"); has {
			rest = user + ":" + hiddenPassword + rest[at:]
		}
	}
	masked := scheme + "://" + rest
	if asked {
		masked += "?" + query
	}
	return sentinelPassword.ReplaceAllString(masked, "${1}"+hiddenPassword)
}

var errHiddenPassword = errors.New("has *** for its password: type the password again when the address changes")

// unmaskURL is the URL that a form means. A hidden password stays with the address it was given for, so that nobody can
// have it sent elsewhere.
func unmaskURL(typed, stored string) (string, error) {
	if stored != "" && typed == maskURL(stored) {
		return stored, nil
	}
	if strings.Contains(typed, ":"+hiddenPassword+"@") || strings.Contains(typed, "sentinel_password="+hiddenPassword) {
		return "", errHiddenPassword
	}
	return typed, nil
}
