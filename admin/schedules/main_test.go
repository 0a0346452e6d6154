package schedules_test

import (
	"testing"

	"github.com/wakecall/wakecall/admin/admintest"
)

func TestMain(m *testing.M) { admintest.Main(m) }
