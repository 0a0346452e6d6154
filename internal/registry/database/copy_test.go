package database_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/test/dbtest"
)

// TestARegistryIsCopiedInARing from SQLite to MariaDB, to PostgreSQL and back to SQLite: every row of every table is
// the same, and new IDs continue after the highest one.
func TestARegistryIsCopiedInARing(t *testing.T) {
	t.Parallel()
	ring := []*database.DB{dbtest.Open(t, dbtest.SQLite(t)), dbtest.Open(t, dbtest.MariaDB(t)),
		dbtest.Open(t, dbtest.PostgreSQL(t)), dbtest.Open(t, dbtest.SQLite(t))}
	first, last := ring[0], ring[len(ring)-1]
	tables := fill(t, first)
	want := rowsOf(t, first, tables)
	for i, from := range ring[:len(ring)-1] {
		o := database.CopyOptions{From: from, To: ring[i+1], DryRun: true}
		for _, o.DryRun = range []bool{true, false} {
			done, err := database.Copy(t.Context(), o)
			if err != nil {
				t.Fatalf("from %s to %s: %v", o.From, o.To, err)
			}
			for _, table := range done {
				if rows := len(want[table.Table]); !slices.Contains(tables, table.Table) || table.Rows != int64(rows) {
					t.Errorf("from %s to %s: %+v of %d", o.From, o.To, table, rows)
				}
			}
			if len(done) != len(tables) {
				t.Errorf("from %s to %s: %d tables of %d", o.From, o.To, len(done), len(tables))
			}
		}
		if _, err := database.Copy(t.Context(), o); !errors.Is(err, database.ErrNotEmpty) {
			t.Errorf("a second copy: %v", err)
		}
	}
	got := rowsOf(t, last, tables)
	for _, table := range tables {
		for i, row := range want[table] {
			if i >= len(got[table]) || got[table][i] != row {
				t.Fatalf("table %s has\n%v\ninstead of\n%v", table, got[table], row)
			}
		}
	}
	for _, db := range ring {
		var highest, next int64
		err := db.Change(t.Context(), func(tx *gorm.DB) error {
			return errors.Join(tx.Raw("SELECT MAX(id) FROM tokens").Scan(&highest).Error,
				tx.Exec("INSERT INTO tokens (name, hash, rights, topics, created_at) "+
					"SELECT name, 'another', rights, topics, created_at FROM tokens WHERE id = ?", highest).Error,
				tx.Raw("SELECT MAX(id) FROM tokens").Scan(&next).Error)
		})
		if err != nil || next != highest+1 {
			t.Errorf("%s: %d follows %d, %v", db, next, highest, err)
		}
	}
}

func TestACopyIsWholeOrRefused(t *testing.T) {
	t.Parallel()
	from, to := dbtest.Open(t, dbtest.SQLite(t)), dbtest.Open(t, dbtest.PostgreSQL(t))
	fill(t, from)
	if err := dbtest.Run(from, "UPDATE users SET role = 'a'||char(0) WHERE name = 'name2'"); err != nil {
		t.Fatal(err)
	}
	refused := func(from, to *database.DB, says string) {
		t.Helper()
		_, err := database.Copy(t.Context(), database.CopyOptions{From: from, To: to})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %s", err, says)
		}
	}
	refused(from, to, "copy table users: column role of the row with name name2: the text has a NUL")
	if rows := rowsOf(t, to, []string{"topics", "revision"}); len(rows["topics"]) > 0 || len(rows["revision"]) != 1 {
		t.Errorf("a copy that failed left %v", rows)
	}
	refused(from, from, "are the same")
	empty, err := database.Open(dbtest.EmptyPostgres(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	refused(from, empty, "wakecall migrate up")
}

// fill adds rows to each table of an SQLite registry, and returns the tables.
func fill(t *testing.T, db *database.DB) (tables []string) {
	t.Helper()
	err := db.Change(t.Context(), func(tx *gorm.DB) error {
		err := tx.Raw("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND " +
			"name NOT LIKE 'schema%' ORDER BY name").Scan(&tables).Error
		for _, table := range tables {
			var columns []struct {
				Name, Type string
				Notnull    bool
			}
			const info = `SELECT name, type, "notnull" FROM pragma_table_info(?)`
			err = errors.Join(err, tx.Raw(info, table).Scan(&columns).Error)
			var rows []map[string]any
			for n := 1; n <= 450; n++ {
				row := map[string]any{}
				for _, c := range columns {
					row[c.Name] = sample(c.Name, c.Type, n)
					if !c.Notnull && c.Name != "id" && n%3 == 0 {
						row[c.Name] = nil
					}
				}
				rows = append(rows, row)
			}
			if table == "revision" {
				rows = []map[string]any{{"id": 1, "value": 450, "seeded": 1, "bootstrapped": 1}}
				err = errors.Join(err, tx.Exec("DELETE FROM revision").Error)
			}
			err = errors.Join(err, tx.Table(table).CreateInBatches(rows, 100).Error)
		}
		return err
	})
	if err != nil || len(tables) < 20 {
		t.Fatal(tables, err)
	}
	return tables
}

func sample(name, kind string, n int) any {
	switch {
	case name == "url", name == "secret":
		return []string{"redis://h/", "\x00sealed:é"}[n%2] + fmt.Sprint(n)
	case name == "cancel_requested", kind == "BOOLEAN":
		return n%2 == 1
	case name == "spec", name == "before_state":
		return fmt.Sprintf(`{"n":%d, "s":"\u0000sealed:\\ '\" 日本𝄞"}`+"\n\t", n)
	case strings.HasPrefix(kind, "VARCHAR(8)"), strings.HasPrefix(kind, "VARCHAR(16)"):
		return fmt.Sprint("é", n)
	case strings.HasPrefix(kind, "VARCHAR"), kind == "TEXT", strings.HasPrefix(kind, "CHAR"):
		return fmt.Sprint(name, n)
	case kind == "DATETIME":
		return time.Date(2026, 11, 28, 1, 2, 3, n*1000, time.UTC)
	case kind == "BLOB":
		return []byte{0, 0xff, byte(n), '\''}
	case kind == "BIGINT" && name != "revision":
		return int64(n) << 40
	}
	return n
}

// rowsOf returns the rows of tables as text, in order.
func rowsOf(t *testing.T, db *database.DB, tables []string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := db.Do(t.Context(), func(tx *gorm.DB) error {
		for _, table := range tables {
			rows, err := tx.Table(table).Rows()
			if err != nil {
				return err
			}
			if found[table], err = texts(rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func texts(rows *sql.Rows) (list []string, err error) {
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%#v", values))
	}
	slices.Sort(list)
	return list, rows.Err()
}
