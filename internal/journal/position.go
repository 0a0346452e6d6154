package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Position says how far a journal's requests and attempts are written: the bytes of the files of the newest days. It
// does not depend on any clock: later lines, in whatever day's file, come after it. The zero Position is the beginning.
type Position []dayEnd

type dayEnd struct {
	day                time.Time
	requests, attempts int64 // bytes of the plain files; below 0: of the packed ones
}

// positionDays is the number of days in a Position; all files of older days come before it.
const positionDays = 3

// End returns the present end of a journal.
func End(dir string) (Position, error) {
	files, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	ends := map[time.Time]*dayEnd{}
	for _, f := range files {
		if f.stream == Errors {
			continue
		}
		e := ends[f.day]
		if e == nil {
			e = &dayEnd{day: f.day}
			ends[f.day] = e
		}
		info, err := os.Stat(filepath.Join(dir, f.name))
		if err != nil {
			continue // it was packed or removed meanwhile, and will be read again
		}
		size := info.Size()
		if f.packed {
			size = -size
		}
		if f.stream == Requests {
			e.requests = size
		} else {
			e.attempts = size
		}
	}
	var p Position
	for _, e := range ends {
		p = append(p, *e)
	}
	slices.SortFunc(p, func(a, b dayEnd) int { return a.day.Compare(b.day) })
	return p[max(0, len(p)-positionDays):], nil
}

// String formats a position for ParsePosition.
func (p Position) String() string {
	days := make([]string, len(p))
	for i, e := range p {
		days[i] = fmt.Sprintf("%s:%d:%d", e.day.Format(dayForm), e.requests, e.attempts)
	}
	return strings.Join(days, ",")
}

// ParsePosition parses a Position; "" is the zero one.
func ParsePosition(text string) (Position, error) {
	var p Position
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' }) {
		f := strings.Split(part, ":")
		if len(f) != 3 {
			return nil, fmt.Errorf("position %.60q in a journal: expected DAY:BYTES:BYTES", text)
		}
		day, err := time.Parse(dayForm, f[0])
		requests, errRequests := strconv.ParseInt(f[1], 10, 64)
		attempts, errAttempts := strconv.ParseInt(f[2], 10, 64)
		if err != nil || errRequests != nil || errAttempts != nil {
			return nil, fmt.Errorf("position %.60q in a journal: expected DAY:BYTES:BYTES", text)
		}
		p = append(p, dayEnd{day, requests, attempts})
	}
	return p, nil
}

// Equal reports whether two positions are the same.
func (p Position) Equal(q Position) bool {
	return slices.EqualFunc(p, q, func(a, b dayEnd) bool {
		return a.day.Equal(b.day) && a.requests == b.requests && a.attempts == b.attempts
	})
}

// isAfter reports whether the position is after all of a day's lines. A position with fewer days was taken when no
// older ones existed: a clock that was set back may have begun such a day since.
func (p Position) isAfter(day time.Time) bool { return len(p) == positionDays && day.Before(p[0].day) }
