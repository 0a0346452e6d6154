package store

import (
	"regexp"
	"strings"
)

var traceparent = regexp.MustCompile(`^([0-9a-f]{2})(-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(-.*)?$`)

// ParseTraceparent reads a traceparent header (W3C Trace Context) and returns it as jobs keep it: in version 00, which
// is all that is known of later versions. It returns "" for one that is not valid.
func ParseTraceparent(s string) string {
	m := traceparent.FindStringSubmatch(s)
	if m == nil || m[1] == "ff" || m[1] == "00" && m[3] != "" ||
		strings.HasPrefix(m[2], "-00000000000000000000000000000000-") || strings.Contains(m[2], "-0000000000000000-") {
		return ""
	}
	return "00" + m[2]
}
