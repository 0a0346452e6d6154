package relay

import (
	"context"
	"database/sql"
	"fmt"
)

// SetAside returns rows that are set aside, by seq.
func (t *Table) SetAside(ctx context.Context, limit int) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return t.rows(ctx, "WHERE state = 'refused' ORDER BY seq LIMIT ?", nil, limit)
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

// State reads the state of the table.
func (t *Table) State(ctx context.Context) (s State, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	rows, err := t.db.QueryContext(ctx, t.sql("SELECT state, COUNT(*) FROM @table GROUP BY state"))
	if err != nil {
		return s, t.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		state, n := "", int64(0)
		if err := rows.Scan(&state, &n); err != nil {
			return s, t.explain(err)
		}
		if state == refused {
			s.SetAside += n
		} else {
			s.Waiting += n
		}
	}
	if err := rows.Err(); err != nil || s.Waiting == 0 {
		return s, t.explain(err)
	}
	_ = rows.Close() // SQLite has one connection
	err = t.db.QueryRowContext(ctx, t.sql("SELECT @now - created_at FROM @table WHERE state <> 'refused' "+
		"ORDER BY seq LIMIT 1")).Scan(&s.OldestMS)
	if err == sql.ErrNoRows {
		err = nil // it has just been carried
	}
	s.OldestMS = max(s.OldestMS, 0)
	return s, t.explain(err)
}
