package calendar

import (
	"errors"
	"sort"
	"time"
)

// Rule says when a schedule's occurrences are. They are in whole seconds. A rule does not change.
type Rule struct {
	every  int64 // seconds; 0: cron
	anchor int64

	cron fields
	zone *time.Location

	start, end int64 // occurrences are in [start, end)
}

// A rule without bounds has the years 1 to 9999, those of RFC 3339.
var (
	earliest = time.Time{}.Unix()
	latest   = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
)

// horizon is how far Next searches.
const horizon = 41 * 366 * day

// Every returns the rule with an occurrence at anchor, and at each multiple of interval after it. Fractions of a second
// of the anchor are cut off.
func Every(interval time.Duration, anchor time.Time) (*Rule, error) {
	if interval < time.Second || interval%time.Second != 0 {
		return nil, errors.New("must be whole seconds, at least 1s")
	}
	return &Rule{every: int64(interval / time.Second), anchor: anchor.Unix(), start: earliest, end: latest}, nil
}

// Within returns the rule with only the occurrences from start on and before end. A zero time is no bound.
func (r *Rule) Within(start, end time.Time) *Rule {
	bounded := *r
	if !start.IsZero() {
		bounded.start = ceil(start)
	}
	if !end.IsZero() {
		bounded.end = ceil(end)
	}
	return &bounded
}

// WallClock reports which of the two meanings a change of clocks has for the rule: that of wall-clock times, each of
// which occurs once, or that of real time. See the package comment.
func (r *Rule) WallClock() bool { return r.cron.wallClock }

// Next returns the first occurrence after an instant, if there is one within the next 41 years.
func (r *Rule) Next(after time.Time) (time.Time, bool) {
	from := r.from(after)
	return instant(r.first(from, min(r.end, from+horizon)))
}

// Between returns the first occurrences after an instant and not later than another, at most limit.
func (r *Rule) Between(after, until time.Time, limit int) []time.Time {
	var found []time.Time
	for len(found) < limit {
		next, ok := r.Next(after)
		if !ok || next.After(until) {
			break
		}
		found, after = append(found, next), next
	}
	return found
}

// Last returns the newest occurrence after an instant and not later than another. It makes as many searches as the
// number of seconds between them has binary digits.
func (r *Rule) Last(after, until time.Time) (time.Time, bool) {
	from, end := r.from(after), r.until(until)
	none := sort.Search(int(max(0, end-from)), func(i int) bool {
		_, ok := r.first(from+int64(i), end)
		return !ok
	})
	return instant(from+int64(none)-1, none > 0)
}

// Count returns how many occurrences there are after an instant and not later than another. It finds those of a cron
// expression one by one, at most 1,440 a day: a year of these takes 0.3 s.
func (r *Rule) Count(after, until time.Time) (n int) {
	from, end := r.from(after), r.until(until)
	if r.every > 0 {
		return int(max(0, r.multiple(end)-r.multiple(from)))
	}
	for at, ok := r.first(from, end); ok; at, ok = r.first(at+1, end) {
		n++
	}
	return n
}

// first returns the first occurrence in [from, until).
func (r *Rule) first(from, until int64) (int64, bool) {
	if r.every == 0 {
		return r.due(from, until)
	}
	at := r.anchor + r.multiple(from)*r.every
	return at, at < until
}

// multiple returns which occurrence is the first from an instant on; that at the anchor is 0.
func (r *Rule) multiple(from int64) int64 { return max(0, (from-r.anchor+r.every-1)/r.every) }

// from returns the first second after an instant that is not before the rule's start.
func (r *Rule) from(after time.Time) int64 { return max(min(after.Unix(), r.end)+1, r.start) }

// until returns the first second after an instant, or the rule's end.
func (r *Rule) until(last time.Time) int64 { return min(last.Unix(), r.end-1) + 1 }

// ceil returns the first whole second that is not before t.
func ceil(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

func instant(seconds int64, ok bool) (time.Time, bool) {
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}
