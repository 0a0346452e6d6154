package relay

import (
	"context"
	"database/sql"
	"time"
)

// Results of a row, also for metrics.
const (
	resultDone        = "done"        // the API accepted it
	resultMissing     = "missing"     // 404: nothing to change, delete or cancel
	resultClosed      = "closed"      // the group is closed to pushes
	resultRefused     = "refused"     // 4xx: counted, and set aside after enough of them
	resultUnavailable = "unavailable" // 429, 5xx or no answer: never counted
	resultNotCalled   = ""            // an earlier row of its key was not done, or there was no time left
)

// outcome is what became of a row.
type outcome struct {
	row    *Row
	body   []byte // of a push
	result string
	change change
}

// change is what to write about a row.
type change struct {
	state    string
	err      string
	pause    time.Duration // until the next attempt
	refusals int           // to add
}

// gone is the state of a row that is done.
const gone = ""

const errorBytes = 1000 // of last_error

// settle deletes the rows that are done, and writes what became of the others, in one transaction. It touches only rows
// that are still in the claim: no other relay has taken them.
func (t *Table) settle(ctx context.Context, id string, outcomes []outcome) error {
	changes := map[change][]int64{}
	for i := range outcomes {
		o := &outcomes[i]
		changes[o.change] = append(changes[o.change], o.row.Seq)
	}
	return t.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for how, seqs := range changes {
			statement, args := "DELETE FROM @table", []any{}
			switch how.state {
			case gone:
			case waiting:
				statement = "UPDATE @table SET " + free
			default:
				statement = "UPDATE @table SET state = ?, claimed_by = '', claimed_until = 0, " +
					"attempts = attempts + ?, next_attempt_at = @now + ?, last_error = ?"
				args = append(args, how.state, how.refusals, how.pause.Milliseconds(), clip(how.err))
			}
			statement += " WHERE seq IN (@seqs) AND claimed_by = ?"
			if _, err := tx.ExecContext(ctx, t.sql(statement, seqs...), append(args, id)...); err != nil {
				return err
			}
		}
		return nil
	})
}
