package admintest

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/gateway/phpdq"

	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

// Main runs the tests of a package that serves an admin, and checks for leaked goroutines.
func Main(m *testing.M) {
	account.PasswordCost = bcrypt.MinCost
	registry.CheckRetryIf = callback.CheckRetryIf // app sets this and the dialects
	registry.Dialects = append(registry.Dialects, "phpdq")
	callback.SetDialects(map[string]callback.Dialect{"phpdq": phpdq.NewDialect(time.UTC)})
	// scs.New starts the clean-up of an in-memory store, which the admin replaces; nothing stops it.
	dbtest.Main(m, goleak.IgnoreAnyFunction("github.com/alexedwards/scs/v2/memstore.(*MemStore).startCleanup"))
}

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
