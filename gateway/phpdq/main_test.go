package phpdq_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/gateway/phpdq"
	"github.com/wakecall/wakecall/internal/callback"
)

func TestMain(m *testing.M) {
	callback.SetDialects(map[string]callback.Dialect{"phpdq": phpdq.NewDialect(time.FixedZone("there", 3600))})
	goleak.VerifyTestMain(m)
}
