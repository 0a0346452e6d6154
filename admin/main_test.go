package admin

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"

	"github.com/wakecall/wakecall/gateway/phpdq"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) {
	account.PasswordCost = bcrypt.MinCost
	registry.CheckRetryIf = callback.CheckRetryIf // as app sets it
	registry.Dialects = append(registry.Dialects, "phpdq")
	callback.SetDialects(map[string]callback.Dialect{"phpdq": phpdq.NewDialect(time.UTC)})
	// scs.New starts the clean-up of an in-memory store, which the admin replaces; nothing stops it.
	dbtest.Main(m, goleak.IgnoreAnyFunction("github.com/alexedwards/scs/v2/memstore.(*MemStore).startCleanup"))
}
