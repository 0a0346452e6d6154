package alert

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/database"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) {
	sendTimeout = time.Second
	dbtest.Main(m)
}

// openDB opens a database and brings its schema up to date.
func openDB(t *testing.T, dsn string) *database.DB {
	t.Helper()
	db, err := database.Open(dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.CheckSchema(t.Context()); err == nil {
		return db
	}
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}
