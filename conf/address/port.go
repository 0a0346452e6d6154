package address

import (
	"net/url"
	"strings"
)

// Port returns the port that an HTTP URL names, or that of its scheme.
func Port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return strings.TrimLeft(u.Port(), "0")
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
