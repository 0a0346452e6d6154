// Package leaks checks that the tests of a package leave no goroutine behind.
package leaks

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package that uses Redis. After failures, the client's pool dials until it notices, within a
// second, that it was closed.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
