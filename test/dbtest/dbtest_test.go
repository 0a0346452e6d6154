package dbtest_test

import (
	"testing"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestAServerComesBackWithItsData(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
	s := dbtest.StartServer(t)
	s.Exec(t, "wakecall", "CREATE TABLE x (n INT)", "INSERT INTO x VALUES (7)")
	s.Kill9()
	s.Start()
	n := 0
	if err := s.Connect(t, "wakecall").QueryRow("SELECT n FROM x").Scan(&n); err != nil || n != 7 {
		t.Errorf("the table has %d, %v", n, err)
	}
}

// The shared servers must not end with the first test that needs them.
func TestTestsShareAServer(t *testing.T) {
	for range 2 {
		for _, create := range []func(testing.TB) string{dbtest.MariaDB, dbtest.PostgreSQL} {
			t.Run("", func(t *testing.T) {
				if _, err := dbtest.Connect(t, create(t)).Exec("SELECT * FROM topics"); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestAStandbyIsPromoted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
	s := dbtest.StartPostgres(t)
	s.Exec(t, "wakecall", "CREATE TABLE x (n INT)", "INSERT INTO x VALUES (7)")
	s.Kill9()
	s.Start()
	standby := s.Standby(t)
	s.Kill9()
	standby.Promote()
	standby.Exec(t, "wakecall", "UPDATE x SET n = n + 1")
	n := 0
	if err := standby.Connect(t, "wakecall").QueryRow("SELECT n FROM x").Scan(&n); err != nil || n != 8 {
		t.Errorf("the table has %d, %v", n, err)
	}
}
