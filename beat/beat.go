package beat

import (
	"math/rand/v2"
	"time"
)

// length is that of a beat: just below a second, so that what is to be seen within a second is, and the look has some time itself.
//
// It is not shorter for a reason beside the work: Go waits for whole milliseconds, rounded down, and a process that wakes before its timer is due sleeps
// and wakes once more, with the runtime's monitor looking on every few microseconds. Linux lets such a wait be a thousandth longer than asked
// for, and of this length that is almost the millisecond that was rounded away: it wakes once, when the timer is due.
const length = 990 * time.Millisecond

// start is when this process's beats began. Processes that start together look at different moments.
var start = time.Now().Add(-rand.N(length))

// In is how long to wait for the last beat within d: never longer than d, and shorter by less than a beat. Where d is shorter than a beat, it is d itself.
// It is for looks that are taken again and again without anything that is expected, not for what is due at a moment.
func In(d time.Duration) time.Duration { return in(time.Since(start), d) }

func in(now, d time.Duration) time.Duration {
	if d < length {
		return d
	}
	late := (now + d) % length
	if late < 0 { // before the start, by the clock of a test
		late += length
	}
	return d - late
}
