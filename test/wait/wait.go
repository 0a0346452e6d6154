// Package wait has the one limit for which tests wait for what ought to happen at once.
package wait

import (
	"testing"
	"time"
)

// Limit is long because machines that test also do other work: it ends a test that waits for what will never happen,
// and judges no speed.
const Limit = 90 * time.Second

// For waits until ok says yes, and ends the test when it does not within Limit.
func For(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", Limit, what)
		}
	}
}
