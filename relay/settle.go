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
	result string
	err    string
	pause  time.Duration // until the next attempt; 0: the default
	aside  bool          // refused at once, whatever the number of attempts
}

func (o *outcome) isDone() bool {
	return o.result == resultDone || o.result == resultMissing || o.result == resultClosed
}

// change is an update of a number of rows.
type change struct {
	state     string
	err       string
	pause     time.Duration
	isRefusal bool
}

// changeOf returns what to write about a row that is not done.
func (o *outcome) changeOf(attempts int, pause time.Duration) change {
	switch {
	case o.result == resultNotCalled:
		return change{state: waiting}
	case o.result == resultUnavailable:
		return change{state: retrying, err: o.err, pause: max(o.pause, pause)}
	case o.aside || o.row.Attempts+1 >= attempts:
		return change{state: refused, err: o.err, isRefusal: true}
	}
	return change{state: retrying, err: o.err, pause: min(pause<<min(o.row.Attempts, 10), time.Minute), isRefusal: true}
}

const errorBytes = 1000 // of last_error

// settle deletes the rows that are done, and writes what became of the others, in one transaction. It touches only rows
// that are still in the claim: no other relay has taken them.
func (t *Table) settle(ctx context.Context, c *claim, outcomes []outcome, attempts int, pause time.Duration,
) error {
	var done []int64
	changes := map[change][]int64{}
	for i := range outcomes {
		o := &outcomes[i]
		if o.isDone() {
			done = append(done, o.row.Seq)
			continue
		}
		how := o.changeOf(attempts, pause)
		changes[how] = append(changes[how], o.row.Seq)
	}
	return t.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if len(done) > 0 {
			drop := t.sql("DELETE FROM @table WHERE seq IN (@seqs) AND claimed_by = ?", done...)
			if _, err := tx.ExecContext(ctx, drop, c.id); err != nil {
				return err
			}
		}
		for how, seqs := range changes {
			if err := t.write(ctx, tx, how, seqs, c.id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *Table) write(ctx context.Context, tx *sql.Tx, how change, seqs []int64, id string) error {
	set, args := free, []any{}
	if how.state != waiting {
		set = "state = ?, claimed_by = '', claimed_until = 0, attempts = attempts + ?, next_attempt_at = @now + ?, " +
			"last_error = ?"
		counted := 0
		if how.isRefusal {
			counted = 1
		}
		args = append(args, how.state, counted, how.pause.Milliseconds(), clip(how.err))
	}
	_, err := tx.ExecContext(ctx, t.sql("UPDATE @table SET "+set+" WHERE seq IN (@seqs) AND claimed_by = ?", seqs...),
		append(args, id)...)
	return err
}
