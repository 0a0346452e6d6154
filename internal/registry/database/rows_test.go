package database_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestRowsAreFoundAndReplaced on both databases in the same way, and errors distinguish a refusal from an outage.
func TestRowsAreFoundAndReplaced(t *testing.T) {
	dbtest.OnBothEmpty(t, func(t *testing.T, dsn string) {
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
	db := open(t, dbtest.EmptyMariaDB(t))
	err := dbtest.Run(db, "CREATE TABLE kinds (name VARCHAR(9) NOT NULL, at DATETIME(3), kind ENUM('a','b'))")
	if err != nil {
		t.Fatal(err)
	}
	for what, statement := range map[string]string{
		"truncated": "INSERT INTO kinds (name, kind) VALUES ('a', 'c')",
		"time":      "INSERT INTO kinds (name, at) VALUES ('a', '2026-13-32')",
		"default":   "INSERT INTO kinds (at) VALUES (NULL)",
	} {
		if err := dbtest.Run(db, statement); err == nil || errors.Is(err, database.ErrUnavailable) || !db.Up() {
			t.Errorf("%s: %v, up %v", what, err, db.Up())
		}
	}
}
