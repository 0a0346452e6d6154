package registry

import (
	"errors"
	"regexp"
	"strings"
)

// HiddenPassword is shown instead of a stored password.
const HiddenPassword = "***"

var sentinelPassword = regexp.MustCompile(`([?&;]sentinel_password=)[^&;]*`)

// MaskURL hides the secrets in a shard's URL: its password, and the sentinels' password.
func MaskURL(url string) string {
	head, query, asked := strings.Cut(url, "?")
	scheme, rest, ok := strings.Cut(head, "://")
	if !ok {
		return url
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if user, _, has := strings.Cut(rest[:at], ":"); has {
			rest = user + ":" + HiddenPassword + rest[at:]
		}
	}
	masked := scheme + "://" + rest
	if asked {
		masked += "?" + query
	}
	return sentinelPassword.ReplaceAllString(masked, "${1}"+HiddenPassword)
}

var errHiddenPassword = errors.New("has *** for its password: enter the password again when you change the address")

// UnmaskURL returns the URL meant by a user who edited the masked form of the stored one. A hidden password is kept
// only if the address has not changed, so that nobody can have it sent elsewhere.
func UnmaskURL(typed, stored string) (string, error) {
	if stored != "" && typed == MaskURL(stored) {
		return stored, nil
	}
	if strings.Contains(typed, ":"+HiddenPassword+"@") || strings.Contains(typed, "sentinel_password="+HiddenPassword) {
		return "", errHiddenPassword
	}
	return typed, nil
}
