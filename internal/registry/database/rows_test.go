package database_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/test/dbtest"
)

type thing struct {
	Name  string `gorm:"primaryKey;size:40"`
	Value int
	Text  []byte `gorm:"serializer:text;type:varchar(40)"`
}

// TestRowsAreFoundAndReplaced on all databases in the same way, and errors distinguish a refusal from an outage.
func TestRowsAreFoundAndReplaced(t *testing.T) {
	dbtest.OnAllEmpty(t, func(t *testing.T, dsn string) {
		db, ctx := open(t, dsn), t.Context()
		change := func(f func(tx *gorm.DB) error) error { return db.Change(ctx, f) }
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		const table = "CREATE TABLE things (name VARCHAR(40) PRIMARY KEY, value INT, text VARCHAR(40))"
		must(change(func(tx *gorm.DB) error { return tx.Exec(table).Error }))
		put := func(row thing) error {
			return change(func(tx *gorm.DB) error { return database.Upsert(tx).Create(&row).Error })
		}
		must(put(thing{"a", 1, []byte(`{"é":1}`)}))
		must(put(thing{"a", 2, []byte(`{"é":2}`)}))
		must(change(func(tx *gorm.DB) error {
			return database.InsertNew(tx).Create(
				&thing{Name: "a", Value: 3}).Error
		}))
		var row thing
		if found, err := db.Find(ctx, &row, "name", "a"); err != nil || !found || row.Value != 2 ||
			string(row.Text) != `{"é":2}` {
			t.Errorf("found %t %+v, %v", found, row, err)
		}
		if found, err := db.Find(ctx, &thing{}, "name", "none"); err != nil || found {
			t.Errorf("found %t, %v", found, err)
		}
		missing := database.NewRefusal("there is no such thing")
		err := db.Do(ctx, func(tx *gorm.DB) error { return database.MustFind(tx, &thing{}, "name", "none", missing) })
		if !errors.Is(err, missing) || errors.Is(err, database.ErrUnavailable) {
			t.Errorf("a missing row: %v", err)
		}
		all := func(tx *gorm.DB) *gorm.DB { return tx.Order("name") }
		if list, err := database.List[thing](ctx, db, all); err != nil || len(list) != 1 {
			t.Errorf("listed %+v, %v", list, err)
		}

		// a refused change leaves nothing behind
		err = change(func(tx *gorm.DB) error { return errors.Join(tx.Create(&thing{Name: "b"}).Error, missing) })
		if found, _ := db.Find(ctx, &thing{}, "name", "b"); found || !errors.Is(err, missing) {
			t.Errorf("after a refusal: found %t, %v", found, err)
		}
		// a read sees a single state, and blocks no writer
		must(db.Read(ctx, func(tx *gorm.DB) error {
			var before, after int64
			err := tx.Model(&thing{}).Count(&before).Error
			err = errors.Join(err, put(thing{Name: "c"}), tx.Model(&thing{}).Count(&after).Error)
			if before != 1 || after != 1 {
				t.Errorf("a read sees %d rows, then %d", before, after)
			}
			return err
		}))
		// an error of a statement is not an outage
		for name, err := range map[string]error{
			"a second row":   change(func(tx *gorm.DB) error { return tx.Create(&thing{Name: "a"}).Error }),
			"no such table":  db.Do(ctx, func(tx *gorm.DB) error { return tx.Exec("DELETE FROM nothing").Error }),
			"no such column": db.Do(ctx, func(tx *gorm.DB) error { return tx.Exec("SELECT x FROM things").Error }),
			"no SQL":         db.Do(ctx, func(tx *gorm.DB) error { return tx.Exec("SELEC").Error }),
		} {
			if err == nil || errors.Is(err, database.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !db.Up() {
			t.Error("the database is down for an error of a statement")
		}

		// a canceled context and a closed database are distinguished, too
		left, leave := context.WithCancel(ctx)
		leave()
		_, err = db.Find(left, &thing{}, "name", "a")
		if !errors.Is(err, context.Canceled) || errors.Is(err, database.ErrUnavailable) {
			t.Errorf("a canceled context: %v", err)
		}
		must(db.Close())
		if _, err := db.Find(ctx, &thing{}, "name", "a"); !errors.Is(err, database.ErrUnavailable) || db.Up() {
			t.Errorf("a closed database: %v, up %t", err, db.Up())
		}
		if err := db.Ping(ctx); !errors.Is(err, database.ErrUnavailable) {
			t.Errorf("a ping: %v", err)
		}
	})
}

func TestTextsFitTheirColumns(t *testing.T) {
	for text, want := range map[string]string{
		"short": "short", "12345678": "12345678", "123456789": "12345678", "éééééééééé": "éééééééé", "a\xffb": "a�b",
		"": "",
	} {
		if got := database.Clip(text, 8); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
	if got := database.Clip(strings.Repeat("\xff", 9), 8); len([]rune(got)) > 8 {
		t.Errorf("bytes that are no text become %q", got)
	}
	for asked, want := range map[int]int{-1: 100, 0: 100, 1: 1, 1000: 1000, 1001: 1000} {
		if got := database.Limit(asked); got != want {
			t.Errorf("who asks for %d gets %d, want %d", asked, got, want)
		}
	}
	if now := database.Now(); now.Nanosecond()%1000 != 0 || fmt.Sprint(now.Location()) != "UTC" {
		t.Errorf("now is %s", now)
	}
}

// TestAnErrorOfAStatementIsNoOutage: the edit is refused, instead of being repeated until the database is back.
func TestAnErrorOfAStatementIsNoOutage(t *testing.T) {
	for name, with := range map[string]struct {
		dsn   func(testing.TB) string
		table string
	}{
		"mariadb":  {dbtest.EmptyMariaDB, "(name VARCHAR(9) NOT NULL, at DATETIME(3), kind ENUM('a','b'))"},
		"postgres": {dbtest.EmptyPostgres, "(name VARCHAR(9) NOT NULL, at TIMESTAMPTZ, kind VARCHAR(9) CHECK (kind < 'c'))"},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, with.dsn(t))
			if err := dbtest.Run(db, "CREATE TABLE kinds "+with.table); err != nil {
				t.Fatal(err)
			}
			for what, statement := range map[string]string{
				"kind":    "INSERT INTO kinds (name, kind) VALUES ('a', 'c')",
				"time":    "INSERT INTO kinds (name, at) VALUES ('a', '2026-13-32')",
				"default": "INSERT INTO kinds (at) VALUES (NULL)",
				"length":  "INSERT INTO kinds (name) VALUES ('0123456789')",
			} {
				if err := dbtest.Run(db, statement); err == nil || errors.Is(err, database.ErrUnavailable) || !db.Up() {
					t.Errorf("%s: %v, up %v", what, err, db.Up())
				}
			}
		})
	}
}

// TestTextsAreStoredByteForByte, compared and ordered by their bytes, or refused before anything is stored.
func TestTextsAreStoredByteForByte(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		db := dbtest.Open(t, dsn)
		put := func(name, value string) error {
			return db.Change(t.Context(), func(tx *gorm.DB) error {
				row := map[string]any{"name": name, "value": value, "updated_at": database.Now()}
				return tx.Table("settings").Create(row).Error
			})
		}
		names := []string{"A", "B", "_", "a", "a-b", "ab", "b", "é", "日本", "𝄞"}
		for _, name := range []string{"b", "𝄞", "A", "ab", "é", "a-b", "a", "_", "日本", "B"} {
			if err := put(name, `{"k" : "\u0000\\ é'"}`+"\r\n\t "); err != nil {
				t.Fatal(err)
			}
		}
		var stored, values []string
		if err := db.Do(t.Context(), func(tx *gorm.DB) error {
			return errors.Join(tx.Table("settings").Order("name").Pluck("name", &stored).Error,
				tx.Table("settings").Distinct("value").Find(&values).Error)
		}); err != nil || !slices.Equal(stored, names) {
			t.Errorf("in order: %q, %v", stored, err)
		}
		if len(values) != 1 || values[0] != `{"k" : "\u0000\\ é'"}`+"\r\n\t " {
			t.Errorf("stored %q", values)
		}
		if err := put("nul", "a\x00b"); err != nil && (!errors.Is(err, database.ErrText) || !db.Up()) ||
			err == nil && strings.HasPrefix(dsn, "postgres") {
			t.Errorf("a NUL: %v, up %t", err, db.Up())
		}
		if got := database.Clip("a\x00b", 9); got != "a�b" {
			t.Errorf("clipped to %q", got)
		}
	})
}

// TestADeadlockIsRepeated, and one of the transactions does not fail.
func TestADeadlockIsRepeated(t *testing.T) {
	for name, dsn := range map[string]func(testing.TB) string{
		"mariadb": dbtest.EmptyMariaDB, "postgres": dbtest.EmptyPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, dsn(t))
			for _, statement := range []string{
				"CREATE TABLE things (name VARCHAR(40) PRIMARY KEY, value INT)", "INSERT INTO things VALUES ('a', 0), ('b', 0)",
			} {
				if err := dbtest.Run(db, statement); err != nil {
					t.Fatal(err)
				}
			}
			var locked, done sync.WaitGroup
			locked.Add(2)
			for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
				first := true
				done.Go(func() {
					err := db.Change(t.Context(), func(tx *gorm.DB) error {
						add := func(name string) error {
							return tx.Exec("UPDATE things SET value = value + 1 WHERE name = ?", name).Error
						}
						err := add(order[0])
						if first {
							first = false
							locked.Done()
							locked.Wait()
						}
						return errors.Join(err, add(order[1]))
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			rows, err := database.List[thing](t.Context(), db, func(tx *gorm.DB) *gorm.DB {
				return tx.Select("name", "value").Order("name")
			})
			if err != nil || len(rows) != 2 || rows[0].Value != 2 || rows[1].Value != 2 {
				t.Errorf("stored %+v, %v", rows, err)
			}
		})
	}
}
