package calendar

import (
	"math"
	"time"
)

const day = 24 * 60 * 60

// warmUp is how long before a search its clock starts: local time is behind what it has shown for at most a day.
const warmUp = 2 * day

// due returns the first occurrence of a cron expression in [from, until).
func (r *Rule) due(from, until int64) (int64, bool) {
	at, wall := from, r.WallClock()
	if wall {
		at -= warmUp
	}
	offset, end := r.offset(at)
	for shown := at + offset; ; { // the end of the local times that clocks have shown before the instant `at`
		local := max(at, from) + offset
		if wall && at >= from {
			if _, skipped := r.cron.first(shown, local); skipped {
				return at, true
			}
		}
		if wall {
			local = max(local, shown)
		}
		if found, ok := r.cron.first(local, min(end, until)+offset); ok {
			return found - offset, true
		}
		if end >= until {
			return 0, false
		}
		shown = max(shown, end+offset)
		at = end
		offset, end = r.offset(at)
	}
}

// At returns the first instant at which the clocks of a zone show a local time, which is given as if it were of UTC. If
// clocks skip it, that is the first instant after the gap.
func At(local time.Time, zone *time.Location) time.Time {
	wanted := local.Unix()
	for at := wanted - warmUp; ; {
		offset, end := offsetIn(zone, at)
		switch {
		case at+offset > wanted:
			return time.Unix(at, 0).UTC()
		case end+offset > wanted:
			return time.Unix(wanted-offset, int64(local.Nanosecond())).UTC()
		}
		at = end
	}
}

func (r *Rule) offset(at int64) (offset, until int64) { return offsetIn(r.zone, at) }

// offsetIn returns a zone's UTC offset at an instant, and an instant up to which it stays the same. The start that
// ZoneBounds returns is of no use: it is wrong in the year in which a zone got a new rule.
func offsetIn(zone *time.Location, at int64) (offset, until int64) {
	t := time.Unix(at, 0).In(zone)
	_, seconds := t.Zone()
	_, end := t.ZoneBounds()
	if end.IsZero() {
		return int64(seconds), math.MaxInt32 * day
	}
	if !end.After(t) { // on the last day of a leap year: golang/go#81583
		end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return int64(seconds), end.Unix()
}
