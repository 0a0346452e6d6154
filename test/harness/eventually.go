package harness

import (
	"fmt"
	"testing"
	"time"
)

// pollEvery is how often a condition is looked at.
const pollEvery = 10 * time.Millisecond

// Eventually waits until cond returns nil. When it does not within the limit, the test ends with what cond last said.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() error) {
	t.Helper()
	if err := within(limit, cond); err != nil {
		t.Fatalf("waited %s for %s: %v", limit, what, err)
	}
}

// Stays checks that cond returns nil for the whole of the time given: for what must not happen.
func Stays(t testing.TB, during time.Duration, what string, cond func() error) {
	t.Helper()
	end := time.Now().Add(during)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for time.Now().Before(end) {
		if err := cond(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		<-tick.C
	}
}

func within(limit time.Duration, cond func() error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// Equal is a condition for Eventually: nil when got is want.
func Equal[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v", what, got, want)
}
