package ddl_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/client/outbox"
	"github.com/wakecall/wakecall/relay/ddl"
)

// create creates the table, as the output of `wakecall relay ddl sqlite` does.
func create(db *sql.DB) error {
	db.SetMaxOpenConns(1) // each connection would have a database in memory of its own
	script, err := ddl.Of(ddl.SQLite, ddl.Table)
	if err != nil {
		return err
	}
	for _, statement := range ddl.Statements(script) {
		if _, err := db.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}

// TestOutboxOfClient: the Go client writes rows that the table takes, in the transactions of an order.
func TestOutboxOfClient(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := create(db); err != nil {
		t.Fatal(err)
	}
	timers := outbox.Table{Dialect: outbox.SQLite}
	job := outbox.Job{Topic: "order.close", ID: "order-42", Group: "order-42"}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	push := client.Push{
		Topic: job.Topic, ID: job.ID, Group: job.Group, Body: json.RawMessage(`{"order":42}`),
		Delay: client.After(30 * time.Minute),
	}
	change := client.Change{Delay: client.After(40 * time.Minute)}
	err = errors.Join(timers.Push(t.Context(), tx, push), timers.Change(t.Context(), tx, job, change),
		timers.CancelGroup(t.Context(), tx, "order-42", 10*time.Minute), tx.Commit())
	const want = "push of order-42, change of order-42, cancel_group of order-42"
	if got := strings.Join(ops(db), ", "); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// ops returns the rows of the outbox.
func ops(db *sql.DB) (list []string) {
	rows, err := db.Query("SELECT op || ' of ' || ordered_by FROM wakecall_outbox ORDER BY seq")
	if err != nil {
		return []string{err.Error()}
	}
	defer rows.Close()
	for rows.Next() {
		var op string
		if err := rows.Scan(&op); err != nil {
			return []string{err.Error()}
		}
		list = append(list, op)
	}
	if err := rows.Err(); err != nil {
		return []string{err.Error()}
	}
	return list
}

// TestOutboxWithGorm: rows are committed, or rolled back, with a transaction of gorm, also one with prepared statements.
func TestOutboxWithGorm(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		dialector := &sqlite.Dialector{DriverName: "sqlite", DSN: ":memory:"}
		db, err := gorm.Open(dialector, &gorm.Config{PrepareStmt: prepared})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if err := create(pool); err != nil {
			t.Fatal(err)
		}
		timers := outbox.Table{Dialect: outbox.SQLite}
		transaction := func(id string, result error) {
			err := db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
				job := outbox.Job{Topic: "order.close", ID: id}
				if err := timers.Delete(t.Context(), tx.Statement.ConnPool, job); err != nil {
					t.Error(err)
				}
				return result
			})
			if !errors.Is(err, result) {
				t.Error(err)
			}
		}
		transaction("committed", nil)
		transaction("rolled-back", gorm.ErrInvalidData)
		if got := strings.Join(ops(pool), ", "); got != "delete of order.close committed" {
			t.Errorf("prepared %v: %s", prepared, got)
		}
	}
}
