package harness

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

// Patience limits the wait for something that should happen at once.
const Patience = wait.Limit

// pollEvery is how often a condition is checked.
const pollEvery = 20 * time.Millisecond

// Eventually waits until cond returns nil. When it does not within the limit, the test ends with cond's last error.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := wait.Until(ctx, pollEvery, cond); err != nil {
		t.Fatalf("waited %s for %s: %v", limit, what, err)
	}
}

// Stays checks that cond returns nil during all of the given time: for events that must not happen.
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

// Quickly checks that do can be done within limit. A busy machine may delay some runs: do is run again until one run is
// quick enough, so that only what is always too slow fails.
func Quickly(t testing.TB, limit time.Duration, what string, do func()) {
	t.Helper()
	Eventually(t, Patience, fmt.Sprintf("%s to take no longer than %s", what, limit), func() error {
		began := time.Now()
		do()
		if took := time.Since(began); took > limit {
			return fmt.Errorf("it took %s", took)
		}
		return nil
	})
}

// Equal is a condition for Eventually: nil when got is want.
func Equal[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v", what, got, want)
}
