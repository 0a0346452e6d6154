package alert

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) {
	sendTimeout, storeLimit = 3*time.Second, 3*time.Second
	dbtest.Main(m)
}
