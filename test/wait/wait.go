// Package wait has the waits of tests for events that should happen at once.
package wait

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Limit is long because test machines also do other work: it ends a test that waits for an event that never happens,
// and does not measure speed.
const Limit = 90 * time.Second

// For waits until ok returns true, and ends the test when it does not within Limit.
func For(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", Limit, what)
		}
	}
}

// Until calls cond again and again until it returns nil. When ctx ends first, it returns cond's last error.
func Until(ctx context.Context, every time.Duration, cond func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
