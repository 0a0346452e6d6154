package timer

import (
	"testing"
	"time"
)

// TestTheQuickestMessageTellsRedisTime: however long others took, what follows is late by no more than that one took.
func TestTheQuickestMessageTellsRedisTime(t *testing.T) {
	c := newClock()
	redis := func(d time.Duration) time.Time { return c.since.Add(d - time.Hour).Round(0) } // an hour behind
	for _, took := range []time.Duration{5 * time.Millisecond, time.Microsecond, 3 * time.Millisecond} {
		at := c.since.Add(time.Second)
		c.read(redis(time.Second-took), at)
	}
	if got := c.when(redis(time.Minute)).Sub(c.since); got != time.Minute+time.Microsecond {
		t.Errorf("a minute later is %s later", got)
	}
}
