package outbox

import (
	"testing"

	"go.uber.org/goleak"
)

// gorm's cache of prepared statements has a goroutine that never ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}
