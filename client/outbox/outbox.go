package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wakecall/wakecall/client"
)

// Dialect is the database's kind, as `wakecall relay ddl` names it.
type Dialect string

// The databases that the relay reads.
const (
	MySQL      Dialect = "mysql" // and MariaDB
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
)

// DefaultName is the name of the table unless Table.Name says otherwise.
const DefaultName = "wakecall_outbox"

// Table is an outbox.
type Table struct {
	Dialect Dialect // required
	Name    string  // may have a schema, "shop.wakecall_outbox"; empty: DefaultName
}

// Tx is a transaction: *sql.Tx, or a *sql.Conn with one. A *sql.DB fits too, but stores a row in a transaction of its
// own. The result of ExecContext is not used and may be nil.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Job names a job that was pushed.
type Job struct {
	Topic, ID string
	Group     string // that of its push: the row is carried after the others of the group
}

// Push pushes a job once the transaction is committed. Delay counts from the insert, by the database's clock. TTL
// counts from the relay's push, and so does the topic's delay, if there is neither Delay nor DueAt. Without an id, the
// job gets one that is made from its row. OnDuplicate may be client.Keep or client.Replace: a repeated push with
// client.Refuse would refuse itself.
func (t Table) Push(ctx context.Context, tx Tx, p client.Push) error {
	r, err := pushRow(p)
	return t.insert(ctx, tx, r, err)
}

// Change changes a delayed or ready job once the transaction is committed. A delay counts from the insert. If the job
// no longer exists then, nothing happens. An ETag is refused: by then it may be another one.
func (t Table) Change(ctx context.Context, tx Tx, job Job, ch client.Change) error {
	r, err := changeRow(job, ch)
	return t.insert(ctx, tx, r, err)
}

// Delete deletes a job once the transaction is committed. If it no longer exists then, nothing happens.
func (t Table) Delete(ctx context.Context, tx Tx, job Job) error {
	r := row{op: "delete", topic: job.Topic, id: job.ID, group: job.Group}
	err := errors.Join(checkTopic(job.Topic), checkID("id", job.ID), checkGiven("group", job.Group))
	return t.insert(ctx, tx, r, err)
}

// CancelGroup deletes the waiting and dead jobs of a group once the transaction is committed. With closeFor, 1 s to
// 30 days, it also closes the group for that time: later pushes into it are dropped.
func (t Table) CancelGroup(ctx context.Context, tx Tx, group string, closeFor time.Duration) error {
	r, err := cancelRow(group, closeFor)
	return t.insert(ctx, tx, r, err)
}

// row is a row of the table without the columns that the database and the relay fill in.
type row struct {
	op, topic, id string
	body          string
	dueAt         any // Unix milliseconds; nil: none
	delayMS       any
	priority      string
	group         string
	options       string
}

// insert inserts a row, unless the error with which it was made is not nil.
func (t Table) insert(ctx context.Context, tx Tx, r row, err error) error {
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return fmt.Errorf("outbox: %s: %w", r.op, err)
	}
	columns, args := []string{"op"}, []any{r.op}
	for _, given := range []struct {
		column string
		value  any
	}{
		{"topic", r.topic}, {"job_id", r.id}, {"body", r.body}, {"priority", r.priority}, {"group_name", r.group},
		{"options", r.options}, {"due_at", r.dueAt}, {"delay_ms", r.delayMS},
	} {
		if given.value != nil && given.value != "" {
			columns, args = append(columns, given.column), append(args, given.value)
		}
	}
	query := "INSERT INTO " + cmp.Or(t.Name, DefaultName) + " (" + strings.Join(columns, ", ") + ") VALUES (" +
		t.Dialect.placeholders(len(args)) + ")"
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("outbox: %s: insert into %s: %w", r.op, cmp.Or(t.Name, DefaultName), err)
	}
	return nil
}

// placeholders returns those of n values.
func (d Dialect) placeholders(n int) string {
	marks := make([]string, n)
	for i := range marks {
		marks[i] = "?"
		if d == PostgreSQL {
			marks[i] = fmt.Sprint("$", i+1)
		}
	}
	return strings.Join(marks, ", ")
}
