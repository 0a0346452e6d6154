package phpdq

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// layouts are the accepted formats of absolute times.
var layouts = []string{
	"2006-01-02 15:04:05", "2006-1-2 15:4:5", "2006-01-02 15:04", "2006-01-02", "2006/01/02 15:04:05",
	"2006/01/02 15:04", "2006/01/02", "20060102150405", "20060102", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05.999999999", time.RFC3339Nano,
}

// parseTime parses the forms of PHP's strtotime that make sense for a due time, in the time zone of now: dates and
// times, @1767323045, now, tomorrow, and +1 day, +30 minutes and the like. It rejects everything else, for which
// strtotime returns false: the job would be due at once.
func parseTime(s string, now time.Time) (time.Time, bool) {
	s = strings.TrimSpace(s)
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, true
		}
	}
	if unix, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(unix, 10, 64)
		return time.Unix(n, 0), err == nil && n < maxUnix
	}
	switch strings.ToLower(s) {
	case "now":
		return now, true
	case "tomorrow":
		return time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, now.Location()), true
	}
	return relativeTime(s, now)
}

// maxUnix is in the year 33658. Larger values would overflow time.Time and be in the past.
const maxUnix = 1_000_000_000_000

func relativeTime(s string, now time.Time) (time.Time, bool) {
	amount := strings.TrimLeft(s, "+ ")
	end := strings.IndexFunc(amount, func(r rune) bool { return r < '0' || r > '9' })
	if end <= 0 {
		return now, false
	}
	n, err := strconv.Atoi(amount[:end])
	if err != nil || n > 1_000_000_000 {
		return now, false
	}
	switch strings.TrimSuffix(strings.ToLower(strings.TrimSpace(amount[end:])), "s") {
	case "sec", "second":
		return after(now, n, time.Second)
	case "min", "minute":
		return after(now, n, time.Minute)
	case "hour":
		return after(now, n, time.Hour)
	case "day":
		return now.AddDate(0, 0, n), true
	case "week":
		return now.AddDate(0, 0, 7*n), true
	case "month":
		return now.AddDate(0, n, 0), true
	case "year":
		return now.AddDate(n, 0, 0), true
	}
	return now, false
}

func after(now time.Time, n int, unit time.Duration) (time.Time, bool) {
	return now.Add(time.Duration(n) * unit), n <= int(math.MaxInt64/unit)
}
