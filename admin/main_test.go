package admin

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// scs.New starts a store in memory, which the admin replaces; nothing stops its clean-up.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/alexedwards/scs/v2/memstore.(*MemStore).startCleanup"))
}
