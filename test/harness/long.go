package harness

import (
	"os"
	"testing"
)

// longEnv, when set, asks for all of each matrix (make test-long).
const longEnv = "WAKECALL_TEST_LONG"

// Long reports whether all of each matrix is to be run, with exact limits, and not only a sample.
func Long() bool { return os.Getenv(longEnv) != "" }

// Sample returns what a test uses in a long run, or in one that takes a sample.
func Sample[T any](long, sample T) T {
	if Long() {
		return long
	}
	return sample
}

// OneOf runs try until it returns nil, at most three times: for what a busy machine may spoil. It ends the test with the
// last error.
func OneOf(t testing.TB, what string, try func() error) {
	t.Helper()
	const tries = 3
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return
		}
		if n == tries {
			t.Fatalf("%s, in none of %d tries: %v", what, tries, err)
		}
		t.Logf("%s: try %d: %v", what, n, err)
	}
}
