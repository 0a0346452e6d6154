package alert

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) {
	sendTimeout = time.Second
	dbtest.Main(m)
}
