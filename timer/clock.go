package timer

import (
	"math"
	"time"
)

// clock says when Redis's clock will show a time. A message with a time of that clock takes a while to arrive; the
// quickest one tells best. What follows from it is never early, unless a clock was set or the two differ in speed.
type clock struct {
	since  time.Time     // (monotonic)
	behind time.Duration // by how much, at most, Redis's clock is behind one that runs on from since
}

func newClock() clock { return clock{since: time.Now(), behind: math.MaxInt64} }

// read notes a time of Redis's clock and the instant (monotonic) at which it arrived.
func (c *clock) read(redis, arrived time.Time) {
	c.behind = min(c.behind, arrived.Sub(c.since)-redis.Sub(c.since))
}

// when returns the instant (monotonic) of a time by Redis's clock.
func (c *clock) when(redis time.Time) time.Time { return c.since.Add(redis.Sub(c.since) + c.behind) }
