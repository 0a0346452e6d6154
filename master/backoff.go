package master

import "time"

const (
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 30 * time.Second
	stableAfter = time.Minute // a process that ran longer is restarted after the shortest pause
)

// backoff computes the pause before a process is restarted.
type backoff struct{ pause time.Duration }

// next returns twice the last pause, or the shortest one if the process ran for long.
func (b *backoff) next(lived time.Duration) time.Duration {
	if lived > stableAfter {
		b.pause = 0
	}
	b.pause = min(max(2*b.pause, minBackoff), maxBackoff)
	return b.pause
}

// deathsApart is the longest time between two deaths of a process that keeps dying.
const deathsApart = 10 * time.Minute

// deaths counts how often a process died in a row.
type deaths struct {
	n           int
	since, last time.Time
}

func (d *deaths) add(now time.Time) {
	if now.Sub(d.last) > deathsApart {
		*d = deaths{since: now}
	}
	d.n, d.last = d.n+1, now
}

// lately returns how often the process has died, unless the last time is long ago, and since when.
func (d *deaths) lately(now time.Time) (int, time.Time) {
	if now.Sub(d.last) > deathsApart {
		return 0, time.Time{}
	}
	return d.n, d.since.UTC()
}
