// Package dbtest gives tests databases of the registry: SQLite files, and databases on a private MariaDB server that
// the tests of a package share.
package dbtest

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/migrations"
)

// memoryDir holds the files of tests, because waiting for a disk to sync would take most of their time.
const memoryDir = "/dev/shm"

// parallelTests is more than the number of processors, because the tests wait more than they compute.
const parallelTests = "8"

// Main runs a package's tests, then checks for leaked goroutines and stops the shared server. It does not return.
func Main(m *testing.M, options ...goleak.Option) {
	if info, err := os.Stat(memoryDir); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		_ = os.Setenv("TMPDIR", memoryDir)
	}
	database.Timeout = 5 * database.Timeout
	_ = flag.Set("test.parallel", parallelTests) // before flags are parsed: -parallel wins
	goleak.VerifyTestMain(stopping{m}, options...)
}

// stopping stops the shared server when all tests have run.
type stopping struct{ *testing.M }

func (s stopping) Run() int {
	defer func() {
		for _, cleanup := range slices.Backward(shared.cleanups) {
			cleanup()
		}
	}()
	return s.M.Run()
}

// shared is the server for tests that do not stop it. Each gets a database of its own.
var shared struct {
	*Server
	once      sync.Once
	mu        sync.Mutex // guards cleanups: the servers start at the same time
	cleanups  []func()
	databases atomic.Int64
	tables    []string // of the database template, which has the registry's schema

	postgres      *Postgres
	startPostgres sync.Once
}

// lasting starts what lasts longer than the test that first needs it: until all tests of the package have run.
type lasting struct{ testing.TB }

func (lasting) Cleanup(f func()) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.cleanups = append(shared.cleanups, f)
}

func (lasting) Failed() bool { return false }

func (lasting) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// OnBoth runs a test against an empty database with the current schema on SQLite and on MariaDB.
func OnBoth(t *testing.T, test func(t *testing.T, dsn string)) { onBoth(t, MariaDB, test) }

// OnBothEmpty is OnBoth for tests that create the schema themselves.
func OnBothEmpty(t *testing.T, test func(t *testing.T, dsn string)) { onBoth(t, EmptyMariaDB, test) }

func onBoth(t *testing.T, mariaDB func(testing.TB) string, test func(t *testing.T, dsn string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, SQLite(t)) })
	t.Run("mariadb", func(t *testing.T) { t.Parallel(); test(t, mariaDB(t)) })
}

// SQLite returns the DSN of a file that does not exist yet. Creating its schema takes milliseconds.
func SQLite(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "r.db") }

// EmptyMariaDB returns the DSN of a database without tables on the shared server.
func EmptyMariaDB(t testing.TB) string {
	t.Helper()
	return shared.DSN(createDatabase(t))
}

// MariaDB returns the DSN of a database with the current schema on the shared server. Copying its
// tables from a template is ten times as fast as migrating.
func MariaDB(t testing.TB) string {
	t.Helper()
	name := createDatabase(t)
	var copies []string
	for _, table := range shared.tables {
		copies = append(copies, fmt.Sprintf("CREATE TABLE %s LIKE template.%[1]s", table),
			fmt.Sprintf("INSERT INTO %s SELECT * FROM template.%[1]s", table))
	}
	shared.Exec(t, name, copies...)
	return shared.DSN(name)
}

// Open opens a database and creates its schema.
func Open(t testing.TB, dsn string) *database.DB {
	t.Helper()
	db, err := database.Open(dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if db.CheckSchema(t.Context()) == nil {
		return db
	}
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// Run runs a statement in a database.
func Run(db *database.DB, statement string) error {
	return db.Do(context.Background(), func(tx *gorm.DB) error { return tx.Exec(statement).Error })
}

// Connect opens the database of a DSN that MariaDB or EmptyMariaDB returned.
func Connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	return shared.Connect(t, dsn[strings.LastIndex(dsn, "/")+1:])
}

// EmptyPostgres returns the DSN of a database without tables on a PostgreSQL server that the tests of a package share.
func EmptyPostgres(t testing.TB) string {
	t.Helper()
	shared.startPostgres.Do(func() { shared.postgres = StartPostgres(lasting{t}) })
	if shared.postgres == nil {
		t.Fatal("the shared PostgreSQL did not start")
	}
	name := fmt.Sprint("test", shared.databases.Add(1))
	shared.postgres.Exec(t, "postgres", "CREATE DATABASE "+name)
	return shared.postgres.DSN(name)
}

func createDatabase(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() { startShared(t) })
	if shared.tables == nil {
		t.Fatal("the shared MariaDB did not start")
	}
	name := fmt.Sprint("test", shared.databases.Add(1))
	shared.Exec(t, "", "CREATE DATABASE "+name)
	return name
}

func startShared(t testing.TB) {
	t.Helper()
	shared.Server = install(lasting{t})
	shared.Exec(t, "", "CREATE DATABASE template")
	template := shared.connect("template")
	defer template.Close()
	if _, err := migrations.Up(context.Background(), template, migrations.MySQL); err != nil {
		t.Fatal(err)
	}
	rows, err := template.Query("SHOW TABLES")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		shared.tables = append(shared.tables, table)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
