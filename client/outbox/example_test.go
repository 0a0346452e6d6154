package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	_ "modernc.org/sqlite" // the driver "sqlite"

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

// The timers of an order are pushed, changed and cancelled in the transactions of the order.
func ExampleTable() {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := create(db); err != nil {
		log.Fatal(err)
	}
	ctx, timers := context.Background(), outbox.Table{Dialect: outbox.SQLite}
	job := outbox.Job{Topic: "order.close", ID: "order-42", Group: "order-42"}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	// Insert or update the order here: it locks the order's row.
	err = timers.Push(ctx, tx, client.Push{
		Topic: job.Topic, ID: job.ID, Group: job.Group, Body: json.RawMessage(`{"order":42}`),
		Delay: client.After(30 * time.Minute),
	})
	if err == nil {
		err = timers.Change(ctx, tx, job, client.Change{Delay: client.After(40 * time.Minute)})
	}
	if err == nil {
		err = timers.CancelGroup(ctx, tx, "order-42", 10*time.Minute)
	}
	if err == nil {
		err = tx.Commit()
	}
	fmt.Println(err)
	fmt.Println(strings.Join(ops(db), ", "))
	// Output:
	// <nil>
	// push of order-42, change of order-42, cancel_group of order-42
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

// TestGorm: rows are committed, or rolled back, with a transaction of gorm, also one with prepared statements.
func TestGorm(t *testing.T) {
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
