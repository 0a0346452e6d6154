package ddl_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/wakecall/wakecall/relay/ddl"
	"github.com/wakecall/wakecall/test/dbtest"
)

// gorm's cache of prepared statements has a goroutine that never ends.
func TestMain(m *testing.M) {
	dbtest.Main(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// each opens an empty database of each kind.
func each(t *testing.T, test func(t *testing.T, database string, db *sql.DB)) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts database servers; run without -short")
	}
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		test(t, ddl.MySQL, dbtest.StartServer(t).Connect(t, "wakecall"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, ddl.Postgres, dbtest.StartPostgres(t).Connect(t, "wakecall"))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("sqlite", t.TempDir()+"/outbox.db")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		test(t, ddl.SQLite, db)
	})
}

// The statements can be run twice, and fill in what a service leaves out.
func TestTheTable(t *testing.T) {
	each(t, func(t *testing.T, database string, db *sql.DB) {
		script, err := ddl.Of(database, "my_outbox")
		if err != nil || strings.Contains(script, ddl.Table) {
			t.Fatal(err, script)
		}
		for range 2 {
			for _, s := range ddl.Statements(script) {
				if _, err := db.Exec(s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
		}
		body := `{"n": 1.50, "t": "é😀\u0041"}`
		if _, err := db.Exec("INSERT INTO my_outbox (op, topic, job_id, body) VALUES ('push', 'a', 'x', '" +
			strings.ReplaceAll(body, `\`, map[bool]string{true: `\\`, false: `\`}[database == ddl.MySQL]) +
			"')"); err != nil {
			t.Fatal(err)
		}
		var seq, created int64
		var state, key, got string
		err = db.QueryRow("SELECT seq, state, created_at, ordered_by, body FROM my_outbox").
			Scan(&seq, &state, &created, &key, &got)
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Since(time.UnixMilli(created)); off < -time.Second || off > time.Minute {
			t.Errorf("created_at is off by %s", off)
		}
		if seq != 1 || state != "waiting" || key != "a x" || got != body {
			t.Errorf("seq %d, %s, ordered by %q, body %s", seq, state, key, got)
		}
	})
}

func TestNamesOfTables(t *testing.T) {
	for _, name := range []string{"a", "wakecall_outbox", "shop.outbox"} {
		if _, err := ddl.Of(ddl.Postgres, name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a b", "a;b", `"a"`, "a.b.c", "1a"} {
		if _, err := ddl.Of(ddl.Postgres, name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	if _, err := ddl.Of("oracle", "a"); err == nil || !strings.Contains(err.Error(), "mysql, postgres, sqlite") {
		t.Error(err)
	}
}
