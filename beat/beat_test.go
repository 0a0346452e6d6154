package beat

import (
	"testing"
	"time"
)

// TestLooksFallTogether: whatever the intervals, looks end up on beats, and never later than asked for.
func TestLooksFallTogether(t *testing.T) {
	for _, d := range []time.Duration{length, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 300 * time.Second} {
		for now := -3 * length; now < 3*length; now += 1234567 * time.Nanosecond {
			wait := in(now, d)
			if wait <= 0 || wait > d || wait <= d-length {
				t.Fatalf("%v after the start, within %v: %v", now, d, wait)
			}
			if at := now + wait; at%length != 0 {
				t.Fatalf("%v after the start, within %v: %v, which is no beat", now, d, at)
			}
		}
	}
}

// TestEverySecondIsEveryBeat: a look that begins late in answering its beat, or takes its time, does not miss the next.
func TestEverySecondIsEveryBeat(t *testing.T) {
	for _, late := range []time.Duration{0, time.Microsecond, 3 * time.Millisecond, 900 * time.Millisecond} {
		if got := 7*length + late + in(7*length+late, time.Second); got != 8*length {
			t.Errorf("%v after a beat, the next is %v", late, got)
		}
	}
}

// TestShortWaitsStay: what is looked at oftener than beats go has its own interval.
func TestShortWaitsStay(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Millisecond, length - 1} {
		if got := in(12345, d); got != d {
			t.Errorf("%v became %v", d, got)
		}
	}
}

// TestProcessesHaveTheirOwnPhase: the beats of this one began before it did.
func TestProcessesHaveTheirOwnPhase(t *testing.T) {
	if since := time.Since(start); since <= 0 {
		t.Errorf("the beats begin %v from now", -since)
	}
	if wait := In(time.Second); wait <= 0 || wait > time.Second {
		t.Errorf("a look within a second waits %v", wait)
	}
}
