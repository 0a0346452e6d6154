package relay

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/wakecall/wakecall/internal/observe/relays"
)

// SetAside returns rows that are set aside, by seq.
func (t *Table) SetAside(ctx context.Context, limit int) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	rows, err := t.rows(ctx, t.db, "WHERE state = 'refused' ORDER BY seq LIMIT ?", nil, limit)
	return rows, t.explain(err)
}

// Retry makes a row that is set aside wait again, with no attempts.
func (t *Table) Retry(ctx context.Context, seq int64) error {
	return t.one(ctx, seq, "UPDATE @table SET "+free+", attempts = 0, last_error = NULL")
}

// Drop deletes a row that is set aside.
func (t *Table) Drop(ctx context.Context, seq int64) error {
	return t.one(ctx, seq, "DELETE FROM @table")
}

func (t *Table) one(ctx context.Context, seq int64, statement string) error {
	return t.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, t.sql(statement+" WHERE seq = ? AND state = 'refused'"), seq)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return fmt.Errorf("no row %d is set aside; `wakecall relay list` shows those that are", seq)
	})
}

// State reads the state of the table. Each part reads an index, and no bodies.
func (t *Table) State(ctx context.Context) (s relays.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err = t.db.QueryRowContext(ctx, t.sql("SELECT (SELECT COUNT(*) FROM @table WHERE state <> 'refused'), "+
		"(SELECT COUNT(*) FROM @table WHERE state = 'refused'), "+
		"COALESCE(@now - (SELECT created_at FROM @table WHERE state <> 'refused' ORDER BY seq LIMIT 1), 0)")).
		Scan(&s.Waiting, &s.SetAside, &s.OldestMS)
	s.OldestMS = max(s.OldestMS, 0)
	return s, t.explain(err)
}
