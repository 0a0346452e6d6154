package registry

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/test/dbtest"

	"github.com/wakecall/wakecall/migrations"
)

func TestSeveralHostsOpenAtOnce(t *testing.T) {
	dbtest.OnAllEmpty(t, func(t *testing.T, dsn string) {
		const hosts = 6
		errs := [hosts]error{}
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				r, err := Open(Options{DSN: dsn, Migrate: MigrateOlder})
				if err == nil {
					err = r.Close()
				}
				errs[i] = err
			})
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Error(err)
		}
	})
}

// Roles that start at the same time, as containers do, create the file together.
func TestTheFirstProcessesMakeOneFile(t *testing.T) {
	t.Parallel()
	for range 10 {
		dsn := "sqlite:" + filepath.Join(t.TempDir(), "registry.db")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				r, err := Open(Options{DSN: dsn, Migrate: MigrateOlder})
				if err != nil {
					t.Error(err)
					return
				}
				_ = r.Close()
			})
		}
		wg.Wait()
	}
}

// The lock wait lasts longer than a connection may be idle.
func TestAHostWaitsForAnotherThatMigrates(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		waitForOther(t, dbtest.EmptyMariaDB(t), "DO GET_LOCK('wakecall_migrate', 30)",
			"DO RELEASE_LOCK('wakecall_migrate')",
			"SELECT MAX(query_id) FROM information_schema.processlist WHERE info LIKE 'SELECT GET_LOCK(%' AND "+
				"db = DATABASE()")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		waitForOther(t, dbtest.EmptyPostgres(t), "SELECT pg_advisory_lock(7738149130210504301)",
			"SELECT pg_advisory_unlock(7738149130210504301)",
			"SELECT MAX(query_start)::text FROM pg_stat_activity WHERE datname = current_database() AND "+
				"query LIKE 'SELECT pg_try_advisory_lock(%'")
	})
}

func waitForOther(t *testing.T, dsn, lock, unlock, query string) {
	t.Helper()
	db := dbtest.Connect(t, dsn)
	holder, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := holder.ExecContext(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		r, err := Open(Options{DSN: dsn, Migrate: MigrateOlder})
		if err == nil {
			err = r.Close()
		}
		done <- err
	}()
	// It waits in several queries: the third shows that none of them was the last.
	seen := map[string]bool{}
	eventually(t, "the other host waits", func() bool {
		var id sql.NullString
		if err := db.QueryRow(query).Scan(&id); err != nil {
			t.Fatal(err)
		}
		seen[id.String] = seen[id.String] || id.Valid
		return len(seen) > 3
	})
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if _, err := holder.ExecContext(t.Context(), unlock); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// MySQL commits every statement that changes the schema: a host may crash between any two of them.
func TestHalfAMigrationIsCompleted(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{
		"DELETE FROM schema_migrations WHERE version_id >= 1",
		"DELETE FROM schema_migrations WHERE version_id >= 1; DROP TABLE revision; DROP TABLE audit",
		"DELETE FROM schema_migrations",
		"DROP TABLE schema_migrations; DROP TABLE users",
	} {
		dsn := dbtest.MariaDB(t)
		db := dbtest.Connect(t, dsn)
		for statement := range strings.SplitSeq(damage, "; ") {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(Options{DSN: dsn}); !errors.Is(err, ErrSchemaOlder) {
			t.Errorf("%s: without Migrate: %v", damage, err)
		}
		put(t, open(t, Options{DSN: dsn}), topic("t"))
	}
}

// TestASchemaOfAnotherVersion is used if it names this version as one of its readers, and migrated only when asked.
func TestASchemaOfAnotherVersion(t *testing.T) {
	dbtest.OnAllEmpty(t, func(t *testing.T, dsn string) {
		if _, err := Open(Options{DSN: dsn}); !errors.Is(err, ErrSchemaOlder) ||
			!strings.Contains(err.Error(), "wakecall migrate up") {
			t.Fatalf("an empty database: %v", err)
		}
		r := open(t, Options{DSN: dsn, Migrate: MigrateEmpty})
		do := func(statement string) {
			t.Helper()
			if err := dbtest.Run(r.db, statement); err != nil {
				t.Fatal(err)
			}
		}
		steps, err := r.db.Migrations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprint(len(steps))
		do("DELETE FROM schema_migrations WHERE version_id = " + last)
		if _, err := Open(Options{DSN: dsn, Migrate: MigrateEmpty}); !errors.Is(err, ErrSchemaOlder) {
			t.Errorf("an older schema: %v", err)
		}
		do("INSERT INTO schema_migrations (version_id, is_applied) VALUES (" + last + ", TRUE), (99999, TRUE)")
		for _, migrate := range []Migrate{MigrateNone, MigrateEmpty, MigrateOlder} {
			newer, err := Open(Options{DSN: dsn, Migrate: migrate})
			if err != nil {
				t.Fatalf("a newer schema: %v", err)
			}
			_ = newer.Close()
		}
		do("UPDATE schema_reader SET oldest = 99998")
		for _, migrate := range []Migrate{MigrateNone, MigrateEmpty, MigrateOlder} {
			if _, err := Open(Options{DSN: dsn, Migrate: migrate}); !errors.Is(err, ErrSchemaNewer) ||
				!strings.Contains(err.Error(), "99998") {
				t.Errorf("one that is too new: %v", err)
			}
		}
		if _, err := r.db.Migrate(t.Context()); !errors.Is(err, migrations.ErrSchemaNewer) {
			t.Errorf("migrate: %v", err)
		}
	})
}

func TestTheDatabaseFileIsPrivate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"r.db", "sp ace/100%?#.db"} {
		path := filepath.Join(t.TempDir(), name)
		put(t, open(t, Options{DSN: "sqlite:" + path}), topic("t"))
		for _, file := range []string{path, path + "-wal", path + "-shm"} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", file, info, err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "from a backup.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, Options{DSN: "sqlite:" + path})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
