package store

import "strings"

const zeroTrace, zeroSpan = "00000000000000000000000000000000", "0000000000000000"

// ParseTraceparent reads a traceparent header (W3C Trace Context) and returns it as jobs keep it: in version 00, which
// is all that is known of later versions. It returns "" for one that is not valid.
func ParseTraceparent(s string) string {
	const length = len("00-" + zeroTrace + "-" + zeroSpan + "-00")
	if len(s) < length || len(s) > length && (s[:2] == "00" || s[length] != '-') {
		return ""
	}
	s = s[:length]
	f := strings.Split(s, "-")
	if len(f) != 4 || len(f[0]) != 2 || len(f[1]) != len(zeroTrace) || len(f[2]) != len(zeroSpan) ||
		strings.Trim(s, "0123456789abcdef-") != "" || f[0] == "ff" || f[1] == zeroTrace || f[2] == zeroSpan {
		return ""
	}
	return "00" + s[2:]
}
