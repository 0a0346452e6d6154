// Package wait has the limit for all waits of tests for events that should happen at once.
package wait

import (
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
