package alert

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) {
	sendTimeout = 20 * time.Second // the machine may be busy
	dbtest.Main(m)
}
