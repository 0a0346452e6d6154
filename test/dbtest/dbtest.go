// Package dbtest gives tests databases of the registry: SQLite files, and databases on a private MariaDB and a private
// PostgreSQL that the tests of a package share.
package dbtest

import (
	"context"
	"database/sql"
	"errors"
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
	"github.com/wakecall/wakecall/test/wait"
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

// shared are the servers for tests that do not stop them. Each test gets a database of its own.
var shared struct {
	mu        sync.Mutex // guards cleanups: the servers start at the same time
	cleanups  []func()
	databases atomic.Int64

	mariaDB struct {
		*Server
		once   sync.Once
		tables []string // of the database template, which has the registry's schema
	}
	postgres struct {
		*Postgres
		once     sync.Once
		template sync.Once
		ready    bool // the database template has the registry's schema
	}
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

// OnAll runs a test against an empty database with the current schema on SQLite, on MariaDB and on PostgreSQL.
func OnAll(t *testing.T, test func(t *testing.T, dsn string)) { onAll(t, MariaDB, PostgreSQL, test) }

// OnAllEmpty is OnAll for tests that create the schema themselves.
func OnAllEmpty(t *testing.T, test func(t *testing.T, dsn string)) {
	onAll(t, EmptyMariaDB, EmptyPostgres, test)
}

func onAll(t *testing.T, mariaDB, postgres func(testing.TB) string, test func(t *testing.T, dsn string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, SQLite(t)) })
	t.Run("mariadb", func(t *testing.T) { t.Parallel(); test(t, mariaDB(t)) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgres(t)) })
}

// Stoppable is a server that a test may stop and start.
type Stoppable interface {
	Addr() string
	DSN(database string) string
	Connect(t testing.TB, database string) *sql.DB
	Start()
	Kill9()
	Pause()
	Resume()
}

// Servers start a MariaDB or a PostgreSQL that the test may stop, with an empty database named wakecall.
var Servers = map[string]func(testing.TB) Stoppable{
	"mariadb":  func(t testing.TB) Stoppable { return StartServer(t) },
	"postgres": func(t testing.TB) Stoppable { return StartPostgres(t) },
}

// OnServers runs a test against each of the Servers.
func OnServers(t *testing.T, test func(t *testing.T, s Stoppable)) {
	t.Parallel()
	for name, start := range Servers {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, start(t)) })
	}
}

// SQLite returns the DSN of a file that does not exist yet. Creating its schema takes milliseconds.
func SQLite(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "r.db") }

// EmptyMariaDB returns the DSN of a database without tables on the shared server.
func EmptyMariaDB(t testing.TB) string {
	t.Helper()
	return shared.mariaDB.DSN(createMariaDB(t))
}

// MariaDB returns the DSN of a database with the current schema on the shared server. Copying its
// tables from a template is ten times as fast as migrating.
func MariaDB(t testing.TB) string {
	t.Helper()
	name := createMariaDB(t)
	var copies []string
	for _, table := range shared.mariaDB.tables {
		copies = append(copies, fmt.Sprintf("CREATE TABLE %s LIKE template.%[1]s", table),
			fmt.Sprintf("INSERT INTO %s SELECT * FROM template.%[1]s", table))
	}
	shared.mariaDB.Exec(t, name, copies...)
	return shared.mariaDB.DSN(name)
}

// EmptyPostgres returns the DSN of a database without tables on the shared server.
func EmptyPostgres(t testing.TB) string {
	t.Helper()
	startSharedPostgres(t)
	return createPostgres(t, "template1")
}

// PostgreSQL returns the DSN of a database with the current schema on the shared server, copied from a template.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	startSharedPostgres(t)
	shared.postgres.template.Do(func() { makeTemplate(t) })
	if !shared.postgres.ready {
		t.Fatal("the shared PostgreSQL has no template")
	}
	return createPostgres(t, "template")
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

// Connect opens the database of a DSN that MariaDB, PostgreSQL or one of the empty ones returned.
func Connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	scheme, rest, _ := strings.Cut(dsn, "://")
	name, _, _ := strings.Cut(rest[strings.LastIndex(rest, "/")+1:], "?")
	if scheme == "postgres" {
		return shared.postgres.Connect(t, name)
	}
	return shared.mariaDB.Connect(t, name)
}

func createMariaDB(t testing.TB) string {
	t.Helper()
	shared.mariaDB.once.Do(func() { startSharedMariaDB(t) })
	if shared.mariaDB.tables == nil {
		t.Fatal("the shared MariaDB did not start")
	}
	name := fmt.Sprint("test", shared.databases.Add(1))
	shared.mariaDB.Exec(t, "", "CREATE DATABASE "+name)
	return name
}

func startSharedMariaDB(t testing.TB) {
	t.Helper()
	shared.mariaDB.Server = install(lasting{t})
	shared.mariaDB.Exec(t, "", "CREATE DATABASE template")
	template := shared.mariaDB.connect("template")
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
		shared.mariaDB.tables = append(shared.mariaDB.tables, table)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func createPostgres(t testing.TB, template string) string {
	t.Helper()
	name := fmt.Sprint("test", shared.databases.Add(1))
	shared.postgres.Exec(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+template)
	return shared.postgres.DSN(name)
}

func startSharedPostgres(t testing.TB) {
	t.Helper()
	shared.postgres.once.Do(func() { shared.postgres.Postgres = StartPostgres(lasting{t}) })
	if shared.postgres.Postgres == nil {
		t.Fatal("the shared PostgreSQL did not start")
	}
}

// makeTemplate migrates a database and waits until its connections have ended: PostgreSQL copies no other.
func makeTemplate(t testing.TB) {
	t.Helper()
	shared.postgres.Exec(t, "postgres", "CREATE DATABASE template")
	template := shared.postgres.connect("template")
	_, err := migrations.Up(context.Background(), template, migrations.Postgres)
	if err := errors.Join(err, template.Close()); err != nil {
		t.Fatal(err)
	}
	server := shared.postgres.Connect(t, "postgres")
	wait.For(t, "the template to be free", func() bool {
		var n int
		err := server.QueryRow("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = 'template'").Scan(&n)
		return err == nil && n == 0
	})
	shared.postgres.ready = true
}
