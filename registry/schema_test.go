package registry

import (
	"database/sql"
	"errors"
	"github.com/wakecall/wakecall/test/dbtest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/migrations"
)

func TestSeveralHostsMigrateAtOnce(t *testing.T) {
	dbtest.OnBothEmpty(t, func(t *testing.T, dsn string) {
		const hosts = 6
		steps, errs := [hosts]int{}, [hosts]error{}
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				r, err := OpenSchema(dsn)
				if err == nil {
					steps[i], err = r.Migrate(t.Context())
					err = errors.Join(err, r.Close())
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
		r := open(t, Options{DSN: dsn})
		if list, err := r.MigrationStatus(t.Context()); err != nil || sum != len(list) {
			t.Errorf("%v made %d steps of %d, %v", steps, sum, len(list), err)
		}
	})
}

func TestSeveralHostsOpenAtOnce(t *testing.T) {
	dbtest.OnBothEmpty(t, func(t *testing.T, dsn string) {
		const hosts = 6
		errs := [hosts]error{}
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				r, err := Open(Options{DSN: dsn, Migrate: true})
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

// Roles that are started side by side, as containers are, make the file together.
func TestTheFirstProcessesMakeOneFile(t *testing.T) {
	t.Parallel()
	for range 50 {
		dsn := "sqlite:" + filepath.Join(t.TempDir(), "registry.db")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				r, err := Open(Options{DSN: dsn, Migrate: true})
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

// The wait for the lock lasts longer than a connection may be silent.
func TestAHostWaitsForAnotherThatMigrates(t *testing.T) {
	t.Parallel()
	dsn := dbtest.EmptyMariaDB(t)
	db := dbtest.Connect(t, dsn)
	holder, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := holder.ExecContext(t.Context(), "DO GET_LOCK('wakecall_migrate', 30)"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		r, err := Open(Options{DSN: dsn, Migrate: true})
		if err == nil {
			err = r.Close()
		}
		done <- err
	}()
	// It waits in pieces: the third shows that none of them was the end.
	seen := map[string]bool{}
	eventually(t, "the other host waits", func() bool {
		var id sql.NullString
		query := "SELECT MAX(query_id) FROM information_schema.processlist WHERE info LIKE 'SELECT GET_LOCK(%' AND db = DATABASE()"
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
	if _, err := holder.ExecContext(t.Context(), "DO RELEASE_LOCK('wakecall_migrate')"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// MySQL commits every statement that changes the schema: a host may die between any two.
func TestHalfAMigrationIsCompleted(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{
		"DELETE FROM schema_version WHERE version_id >= 1",
		"DELETE FROM schema_version WHERE version_id >= 1; DROP TABLE revision; DROP TABLE audit",
		"DELETE FROM schema_version",
		"DROP TABLE schema_version; DROP TABLE users",
	} {
		dsn := dbtest.MariaDB(t)
		dbtest.Exec(t, dsn, strings.Split(damage, "; ")...)
		if _, err := Open(Options{DSN: dsn}); !errors.Is(err, ErrSchemaOlder) {
			t.Errorf("%s: without Migrate: %v", damage, err)
		}
		put(t, open(t, Options{DSN: dsn}), topic("t"))
	}
}

func TestASchemaOfAnotherVersionIsRefused(t *testing.T) {
	dbtest.OnBothEmpty(t, func(t *testing.T, dsn string) {
		if _, err := Open(Options{DSN: dsn}); !errors.Is(err, ErrSchemaOlder) || !strings.Contains(err.Error(), "wakecall migrate up") {
			t.Fatalf("an empty database without Migrate: %v", err)
		}
		r := open(t, Options{DSN: dsn})
		if _, err := r.sql.Exec("INSERT INTO schema_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
			t.Fatal(err)
		}
		for _, migrate := range []bool{false, true} {
			if _, err := Open(Options{DSN: dsn, Migrate: migrate}); !errors.Is(err, ErrSchemaNewer) || !strings.Contains(err.Error(), "99999") {
				t.Errorf("a newer schema: %v", err)
			}
		}
		if _, err := r.Migrate(t.Context()); !errors.Is(err, migrations.ErrSchemaNewer) {
			t.Errorf("migrate: %v", err)
		}
	})
}

func TestTheStatusOfAnEmptyDatabaseChangesNothing(t *testing.T) {
	dbtest.OnBothEmpty(t, func(t *testing.T, dsn string) {
		r, err := OpenSchema(dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		steps, err := r.MigrationStatus(t.Context())
		if err != nil || len(steps) == 0 || steps[0].Applied || steps[0].Name == "" || steps[0].Version != 1 {
			t.Errorf("status = %+v, %v", steps, err)
		}
		if _, err := r.sql.Exec("SELECT * FROM schema_version"); err == nil {
			t.Error("it made a table")
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

func TestBadAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for dsn, says := range map[string]string{
		"":                                     "sqlite:PATH",
		"sqlite:":                              "no path",
		"sqlite::memory:":                      "memory",
		"sqlite://data/r.db":                   "sqlite:data/r.db",
		"/data/r.db":                           "sqlite:PATH",
		"postgres://u:hidden@h/db":             "mysql://",
		"u:hidden@tcp(h:3306)/db":              "mysql://",
		"mysql://u:hidden@h:3306/db":           "tcp(host:3306)",
		"mysql://u:hid:d@en@tcp(h:3306)/":      "no database",
		"mysql:u:hidden@tcp(h:3306":            "tcp(host:3306)",
		"mysql://u:hidden@tcp(127.0.0.1:1)/db": "127.0.0.1:1",
		"mysql://u:hidden@unix(/nowhere)/db":   "/nowhere",
		"sqlite:/proc/none/r.db":               "/proc/none",
	} {
		_, err := Open(Options{DSN: dsn})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hid") || strings.Contains(err.Error(), "d@en") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

func TestPasswordsAreMasked(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"mysql://u:pw@tcp(h:3306)/db":    "mysql://u:***@tcp(h:3306)/db",
		"mysql://u:p@w:/@tcp(h:3306)/db": "mysql://u:***@tcp(h:3306)/db",
		"mysql://u:p\nw@tcp(h:3306)/db":  "mysql://u:***@tcp(h:3306)/db",
		"mysql:u:pw@tcp(h:3306)/db":      "mysql:u:***@tcp(h:3306)/db",
		"mysql://u@tcp(h:3306)/db":       "mysql://u@tcp(h:3306)/db",
		"sqlite:/a:b@c.db":               "sqlite:/a:b@c.db",
		"postgres://u:pw@h/db":           "postgres:***@h/db",
		"u:pw@tcp(h)/db":                 "u:***@tcp(h)/db",
	} {
		if got := MaskDSN(dsn); got != want {
			t.Errorf("%q is shown as %q, not %q", dsn, got, want)
		}
	}
	for url, want := range map[string]string{
		"redis://:pw@h:6379/0":             "redis://:***@h:6379/0",
		"rediss://u:p@w@h":                 "rediss://u:***@h",
		"redis+sentinel://:pw@h1:1,h2:2/m": "redis+sentinel://:***@h1:1,h2:2/m",
		"redis+cluster://h1:7001;h2:7002":  "redis+cluster://h1:7001;h2:7002",
		"unix:///run/redis.sock":           "unix:///run/redis.sock",
		"unix://:pw@/run/redis.sock":       "unix://:***@/run/redis.sock",
		ManagedShard:                       ManagedShard,
	} {
		if got := MaskURL(url); got != want {
			t.Errorf("%q is shown as %q, not %q", url, got, want)
		}
	}
}
