package database_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func open(t *testing.T, dsn string) *database.DB {
	t.Helper()
	db, err := database.Open(dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSeveralHostsMigrateAtOnce(t *testing.T) {
	dbtest.OnAllEmpty(t, func(t *testing.T, dsn string) {
		const hosts = 6
		steps, errs := [hosts]int{}, [hosts]error{}
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				db, err := database.Open(dsn, nil)
				if err == nil {
					steps[i], err = db.Migrate(t.Context())
					err = errors.Join(err, db.Close())
				}
				errs[i] = err
			})
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range steps {
			sum += n
		}
		list, err := open(t, dsn).Migrations(t.Context())
		if err != nil || sum != len(list) {
			t.Errorf("%v made %d steps of %d, %v", steps, sum, len(list), err)
		}
	})
}

func TestTheStatusOfAnEmptyDatabaseChangesNothing(t *testing.T) {
	dbtest.OnAllEmpty(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		steps, err := db.Migrations(t.Context())
		if err != nil || len(steps) == 0 || steps[0].Applied || steps[0].Name == "" || steps[0].Version != 1 {
			t.Errorf("status = %+v, %v", steps, err)
		}
		read := func(tx *gorm.DB) error { return tx.Exec("SELECT * FROM schema_migrations").Error }
		if err := db.Do(t.Context(), read); err == nil {
			t.Error("it created a table")
		}
	})
}

func TestBadAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for dsn, says := range map[string]string{
		"":                                     "sqlite:PATH",
		"sqlite:":                              "no path",
		"sqlite::memory:":                      "memory",
		"sqlite://data/r.db":                   "sqlite:data/r.db",
		"/data/r.db":                           "sqlite:PATH",
		"pg://u:hidden@h/db":                   "postgres://",
		"u:hidden@tcp(h:3306)/db":              "mysql://",
		"mysql://u:hidden@h:3306/db":           "tcp(host:3306)",
		"mysql://u:hid:d@en@tcp(h:3306)/":      "no database",
		"mysql:u:hidden@tcp(h:3306":            "tcp(host:3306)",
		"mysql://u:hidden@tcp(127.0.0.1:1)/db": "127.0.0.1:1",
		"mysql://u:hidden@unix(/nowhere)/db":   "/nowhere",
		"sqlite:/proc/none/r.db":               "/proc/none",

		"postgres://u:hidden@h:5432/":                                   "no database",
		"postgres://u:hid:d@en@h:x/db":                                  "postgres://user:password@host",
		"postgresql://u:hidden@h/db?sslmode=some":                       "sslmode=verify-full",
		"postgres://u:hidden@h/db?sslmode=verify-ca&sslrootcert=/no/ca": "/no/ca",
		"postgres://u:hidden@127.0.0.1:1/db":                            "127.0.0.1:1",
		"postgres://u:hidden@/db?host=/nowhere":                         "/nowhere",
	} {
		db, err := database.Open(dsn, nil)
		if err == nil {
			err = fmt.Errorf("%s: %w", db, errors.Join(db.Ping(t.Context()), db.Close()))
		}
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hid") ||
			strings.Contains(err.Error(), "d@en") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

func TestADatabaseIsShownWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"mysql://u:hidden@tcp(127.0.0.1:1)/db": "mysql://u:<secret>@tcp(127.0.0.1:1)/db",
		"postgres://u:hidden@127.0.0.1:1/db?sslpassword=hidden": "postgres://u:<secret>@127.0.0.1:1/db?" +
			"sslpassword=<secret>",
	} {
		db, err := database.Open(dsn, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := db.String(); got != want || db.Close() != nil {
			t.Errorf("the database is shown as %q", got)
		}
	}
}

func TestOneHostLeads(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		db := dbtest.Open(t, dsn)
		lead := func(host string, ttl time.Duration) bool {
			ok, err := db.Lead(t.Context(), "history", host, ttl)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		for range 2 {
			if !lead("a", time.Minute) || lead("b", time.Minute) {
				t.Error("a leads and b does not")
			}
		}
		if !lead("a", time.Millisecond) {
			t.Error("a may shorten its lease")
		}
		wait.For(t, "b leads when a's lease has expired", func() bool { return lead("b", time.Minute) })
		if lead("a", time.Minute) {
			t.Error("a leads beside b")
		}
	})
}
