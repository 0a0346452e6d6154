package migrations

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

// The tests with MariaDB and PostgreSQL are in package registry.

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestUpAppliesWhatIsMissingOnce(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "r.db"))
	before, err := Status(t.Context(), db, SQLite)
	if err != nil || len(before) == 0 {
		t.Fatal(before, err)
	}
	for _, want := range []int{len(before), 0} {
		if n, err := Up(t.Context(), db, SQLite); err != nil || n != want {
			t.Errorf("applied %d, %v; want %d", n, err, want)
		}
	}
	after, err := Status(t.Context(), db, SQLite)
	if err != nil || len(after) != len(before) {
		t.Fatal(after, err)
	}
	for i, s := range after {
		if before[i].Applied || !s.Applied || s.Version != int64(i+1) || s.Name != before[i].Name {
			t.Errorf("step %d was %+v and is %+v", i+1, before[i], s)
		}
	}
}

// TestARegistryOfAnUnreleasedVersionIsRefused, and left as it is.
func TestARegistryOfAnUnreleasedVersionIsRefused(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "r.db"))
	if _, err := db.Exec("CREATE TABLE " + unreleasedTable + " (version_id INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), db, SQLite); !errors.Is(err, ErrUnreleased) {
		t.Errorf("Up: %v", err)
	}
	if _, err := Status(t.Context(), db, SQLite); !errors.Is(err, ErrUnreleased) {
		t.Errorf("Status: %v", err)
	}
	if there, err := hasTable(t.Context(), db, SQLite, "topics"); err != nil || there {
		t.Errorf("topics were created: %t, %v", there, err)
	}
}

// TestANewerSchemaServesOlderBinaries as long as it says so, and is left as it is.
func TestANewerSchemaServesOlderBinaries(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "r.db"))
	steps, err := Up(t.Context(), db, SQLite)
	if err != nil {
		t.Fatal(err)
	}
	do := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	do("INSERT INTO " + versionTable + " (version_id, is_applied) VALUES (99999, 1)")
	if n, err := Up(t.Context(), db, SQLite); n != 0 || err != nil {
		t.Errorf("up: %d, %v", n, err)
	}
	list, err := Status(t.Context(), db, SQLite)
	if err != nil || len(list) != steps+1 || list[steps] != (Step{99999, "of a newer version", true}) {
		t.Errorf("status: %+v, %v", list, err)
	}
	do("UPDATE " + readerTable + " SET oldest = 99998")
	n, err := Up(t.Context(), db, SQLite)
	if n != 0 || !errors.Is(err, ErrSchemaNewer) || !strings.Contains(err.Error(), "99998") {
		t.Errorf("up: %d, %v", n, err)
	}
	if _, err := Status(t.Context(), db, SQLite); !errors.Is(err, ErrSchemaNewer) {
		t.Errorf("status: %v", err)
	}
}

func TestProcessesOfOneMachineMigrateOneAfterTheOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	// SQLite does not wait while a file is switched to WAL
	if err := open(t, path).PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	const processes = 8
	steps, errs := [processes]int{}, [processes]error{}
	var wg sync.WaitGroup
	for i := range processes {
		db := open(t, path)
		wg.Go(func() { steps[i], errs[i] = Up(t.Context(), db, SQLite) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range steps {
		sum += n
	}
	if sum != len(stepsOfAll(t)) {
		t.Errorf("the steps were applied %v times", steps)
	}
	if info, err := os.Stat(path + "-migrate"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the lock's file: %v, %v", info, err)
	}
}

func TestTheWaitForTheLockEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	a, b := open(t, path), open(t, path)
	unlock, err := lock(t.Context(), a, SQLite)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Up(ctx, b, SQLite); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another has the lock: %v", err)
	}
	unlock()
	if _, err := Up(t.Context(), b, SQLite); err != nil {
		t.Errorf("after it was released: %v", err)
	}
}

func TestADatabaseInMemoryNeedsNoLock(t *testing.T) {
	db, err := sql.Open("sqlite", "file:memory?mode=memory&cache=shared")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxIdleConns(1)
	unlock, err := lock(t.Context(), db, SQLite)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// stepsOfAll returns the steps, which must be the same for all databases.
func stepsOfAll(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, d := range []Dialect{MySQL, Postgres, SQLite} {
		names, err := fs.Glob(files, string(d)+"/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		if all != nil && !slices.Equal(names, all) {
			t.Errorf("%s has the steps %v, others %v", d, names, all)
		}
		all = names
	}
	return all
}

// MySQL commits each statement, so each must be repeatable after a crash.
func TestStepsForMySQLCanBeRepeated(t *testing.T) {
	for _, name := range stepsOfAll(t) {
		text, err := fs.ReadFile(files, "mysql/"+name)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for statement := range strings.SplitSeq(up, ";\n") {
			for begin, needs := range map[string]string{
				"CREATE TABLE": "IF NOT EXISTS", "CREATE INDEX": "IF NOT EXISTS", "INSERT": "IGNORE",
			} {
				_, rest, found := strings.Cut(statement, begin)
				if found && !strings.HasPrefix(strings.TrimSpace(rest), needs) {
					t.Errorf("%s: %s without %s:%.80s", name, begin, needs, rest)
				}
			}
		}
	}
}

// TestStepsOnlyAdd, since binaries of the previous release go on working with the schema.
func TestStepsOnlyAdd(t *testing.T) {
	takesAway := regexp.MustCompile(`(?i)\b(DROP|RENAME|MODIFY|CHANGE|DELETE|TRUNCATE)\b`)
	column := regexp.MustCompile(`(?i)ADD COLUMN[^;]*`)
	for _, d := range []Dialect{MySQL, Postgres, SQLite} {
		for _, name := range stepsOfAll(t) {
			text, err := fs.ReadFile(files, string(d)+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			up, _, _ := strings.Cut(string(text), "-- +goose Down")
			up = regexp.MustCompile(`--.*`).ReplaceAllString(up, "")
			if found := takesAway.FindString(up); found != "" {
				t.Errorf("%s/%s has %s", d, name, found)
			}
			for _, c := range column.FindAllString(up, -1) {
				if strings.Contains(c, "NOT NULL") && !strings.Contains(c, "DEFAULT") {
					t.Errorf("%s/%s: older binaries could not insert a row: %s", d, name, c)
				}
			}
		}
	}
}
