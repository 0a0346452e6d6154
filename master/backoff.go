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
