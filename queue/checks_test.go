package queue

import (
	"testing"
	"time"
)

// TestAHostIsWaitedForWhateverItsClockSays: one that lately was at work must have compared its journal before jobs are called.
func TestAHostIsWaitedForWhateverItsClockSays(t *testing.T) {
	now := time.Now()
	done := Check{Host: "a", Server: "new", Until: now, At: now}
	for _, clock := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		other := Check{Host: "b", Server: "old", Until: now.Add(clock), At: now.Add(-time.Second)}
		if compared("new", []Check{done, other}) {
			t.Errorf("a host whose clock is off by %s is not waited for", clock)
		}
		other.At = now.Add(-2 * lately)
		if !compared("new", []Check{done, other}) {
			t.Errorf("a host that is gone, whose clock was off by %s, is waited for", clock)
		}
	}
}
