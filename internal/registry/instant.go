package registry

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ErrNoInstant is returned for a text that is not an instant. The other errors of ParseInstant are about its value.
var ErrNoInstant = errors.New("must be an RFC 3339 instant like 2030-01-31T08:00:00Z, or Unix milliseconds")

var (
	errNoOffset   = errors.New("must end with Z or an offset from UTC, such as 2030-01-31T08:00:00Z")
	errBefore2000 = errors.New("must not be before 2000; Unix milliseconds are expected")
)

// ParseInstant parses an RFC 3339 instant or Unix milliseconds. It refuses instants before 2000, because Unix seconds
// would be read as one in January 1970, and a job would be called at once.
func ParseInstant(text string) (time.Time, error) {
	upper := strings.ToUpper(text) // RFC 3339 allows t and z
	t, err := time.Parse(time.RFC3339Nano, upper)
	if ms, notInteger := strconv.ParseInt(text, 10, 64); notInteger == nil {
		t, err = time.UnixMilli(ms), nil
	}
	switch {
	case err == nil && IsTooEarly(t):
		return t, errBefore2000
	case err == nil:
		return t, nil
	}
	if _, err := time.Parse(time.RFC3339Nano, strings.Replace(upper, " ", "T", 1)+"Z"); err == nil {
		return t, errNoOffset
	}
	return t, ErrNoInstant
}

// IsTooEarly reports whether an instant is before 2000.
func IsTooEarly(t time.Time) bool { return t.Before(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) }

// ParseLocal parses a local time: RFC 3339 without an offset from UTC; the seconds may be missing. It returns the time as
// if it were of UTC.
func ParseLocal(text string) (local time.Time, ok bool) {
	text = strings.Replace(strings.ToUpper(text), " ", "T", 1)
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if local, err := time.Parse(form, text); err == nil {
			return local, true
		}
	}
	return local, false
}
