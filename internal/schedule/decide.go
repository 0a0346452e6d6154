package schedule

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// Missed says what follows for occurrences that are missed: more than a minute late, or half the time until the next
// one if that is less.
type Missed string

// What follows for missed occurrences. None is pushed later than Policy.MaxLate.
const (
	MissedLast Missed = "last" // the newest one is pushed
	MissedSkip Missed = "skip" // none is
	MissedAll  Missed = "all"  // all are, at most maxCaughtUp at once
)

const (
	maxOnTime   = time.Minute
	longestLate = 24 * time.Hour // what MaxLate is at most unless it is set
	maxCaughtUp = 100
	resolution  = time.Second // of occurrences
)

// Policy is what decides about the occurrences of a schedule.
type Policy struct {
	Name    string
	Rule    *calendar.Rule
	Missed  Missed
	MaxLate time.Duration // 0: until the next occurrence, at most a day; with MissedAll a day
	Jitter  time.Duration // 0: none
}

// Decision is what becomes of all occurrences after a cursor and not later than now.
type Decision struct {
	Push   []time.Time // oldest first; the missed ones before those in time
	Late   int         // left out because they are late
	Limit  int         // left out because too many are late
	Cursor time.Time   // of the newest one; the old cursor if there was none
}

// Decide decides about the occurrences after the cursor.
func (p *Policy) Decide(cursor, now time.Time) Decision {
	newest, some := p.Rule.Last(cursor, now)
	if !some {
		return Decision{Cursor: cursor}
	}
	d := Decision{Cursor: newest}
	inTime := p.inTime(cursor, now)
	until := now
	if len(inTime) > 0 {
		until = inTime[0].Add(-resolution)
	}
	if missed := p.Rule.Count(cursor, until); missed > 0 {
		d.Push, d.Limit = p.catchUp(cursor, until, now)
		d.Late = missed - len(d.Push) - d.Limit
	}
	d.Push = append(d.Push, inTime...)
	return d
}

// inTime returns the occurrences that are not missed. There is at most one a second.
func (p *Policy) inTime(cursor, now time.Time) []time.Time {
	if earliest := now.Add(-maxOnTime - resolution); cursor.Before(earliest) {
		cursor = earliest
	}
	list := p.Rule.Between(cursor, now, int(maxOnTime/resolution)+2)
	return slices.DeleteFunc(list, func(at time.Time) bool { return now.Sub(at) > min(maxOnTime, p.toNext(at)/2) })
}

// toNext returns the time from an occurrence until the next one.
func (p *Policy) toNext(at time.Time) time.Duration {
	if next, ok := p.Rule.Next(at); ok {
		return next.Sub(at)
	}
	return longestLate
}

// catchUp returns the missed occurrences that are pushed, and how many are left out by the limit.
func (p *Policy) catchUp(cursor, until, now time.Time) (list []time.Time, limit int) {
	most := map[Missed]int{MissedLast: 1, MissedAll: maxCaughtUp}[p.Missed]
	for at := until; len(list) < most; {
		missed, ok := p.Rule.Last(cursor, at)
		if !ok || now.Sub(missed) > p.maxLate(missed) {
			break
		}
		list, at = append(list, missed), missed.Add(-resolution)
	}
	slices.Reverse(list)
	if p.Missed == MissedAll && len(list) == most {
		if oldest := now.Add(-p.maxLate(list[0]) - resolution); cursor.Before(oldest) {
			cursor = oldest
		}
		limit = p.Rule.Count(cursor, list[0].Add(-resolution))
	}
	return list, limit
}

// Deadline returns until when an occurrence may be pushed.
func (p *Policy) Deadline(at time.Time) time.Time { return at.Add(p.maxLate(at)) }

// maxLate returns how late an occurrence may be pushed.
func (p *Policy) maxLate(at time.Time) time.Duration {
	switch {
	case p.MaxLate > 0:
		return p.MaxLate
	case p.Missed == MissedAll:
		return longestLate
	}
	return min(p.toNext(at), longestLate)
}

// Due returns when the job of an occurrence is due: some time after it, the same on all hosts, if the schedule has a
// jitter.
func (p *Policy) Due(at time.Time) time.Time {
	if p.Jitter <= 0 {
		return at
	}
	sum := xxhash.Sum64String(OccurrenceID(p.Name, at))
	return at.Add(time.Duration(sum % uint64(p.Jitter))).Truncate(time.Millisecond)
}

// OccurrenceID returns the id of the job of an occurrence.
func OccurrenceID(schedule string, at time.Time) string {
	return schedule + "@" + at.UTC().Format(time.RFC3339)
}
