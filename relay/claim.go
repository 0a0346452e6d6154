package relay

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The states of a row.
const (
	waiting  = "waiting"  // for a relay
	claimed  = "claimed"  // by a relay, until claimed_until
	retrying = "retrying" // waits for next_attempt_at
	refused  = "refused"  // set aside until somebody retries or drops it
)

// Row is a row of the outbox.
type Row struct {
	Seq       int64  `json:"seq"`
	Op        string `json:"op"`
	Topic     string `json:"topic,omitempty"`
	JobID     string `json:"job_id,omitempty"`
	Group     string `json:"group_name,omitempty"`
	OrderedBy string `json:"ordered_by,omitempty"`
	CreatedAt int64  `json:"created_at"`
	Attempts  int    `json:"attempts"` // refusals
	State     string `json:"state"`
	LastError string `json:"last_error,omitempty"`
	body      *string
	dueAt     *int64
	delayMS   *int64
	priority  string
	options   string
	job       string
}

const columns = `seq, op, COALESCE(topic, ''), COALESCE(job_id, ''), COALESCE(group_name, ''), COALESCE(ordered_by, ''),
	created_at, attempts, state, COALESCE(last_error, ''), COALESCE(job, ''), body, due_at, delay_ms,
	COALESCE(priority, ''), COALESCE(options, '')`

func (r *Row) fields() []any {
	return []any{&r.Seq, &r.Op, &r.Topic, &r.JobID, &r.Group, &r.OrderedBy, &r.CreatedAt, &r.Attempts, &r.State,
		&r.LastError, &r.job, &r.body, &r.dueAt, &r.delayMS, &r.priority, &r.options}
}

// names are what the row has in common with rows that must not be carried at the same time: its key and its job.
func (r *Row) names() (names []string) {
	if r.OrderedBy != "" {
		names = append(names, "key "+r.OrderedBy)
	}
	if r.job != "" {
		names = append(names, "job "+r.job)
	}
	return names
}

// claim is a relay's right to a number of rows, until it runs out.
type claim struct {
	id   string
	rows []Row
	end  time.Time // by the monotonic clock; the database's is later
}

// left is how long the claim will last at least.
func (c *claim) left() time.Duration { return time.Until(c.end) }

func (c *claim) seqs() []int64 {
	seqs := make([]int64, len(c.rows))
	for i := range c.rows {
		seqs[i] = c.rows[i].Seq
	}
	return seqs
}

// rules of a claim.
type rules struct {
	rows  int           // at most
	bytes int64         // of bodies, at most, but always one row
	lasts time.Duration // unless it is extended
	skip  bool          // rows that are set aside hold up no others
}

// anything reports whether a claim might find rows, without locking any: an idle relay asks nothing else.
func (t *Table) anything(ctx context.Context) (due, over bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	one := 0
	ask := func(where string) (bool, error) {
		err := t.db.QueryRowContext(ctx, t.sql("SELECT 1 FROM @table WHERE "+where+" LIMIT 1")).Scan(&one)
		if err == sql.ErrNoRows {
			return false, nil
		}
		return err == nil, t.explain(err)
	}
	if due, err = ask("state = 'waiting' AND next_attempt_at = 0"); err != nil {
		return false, false, err
	}
	over, err = ask("state IN ('claimed', 'retrying') AND next_attempt_at <= @now")
	return due, over, err
}

// giveBack makes rows wait again whose claims have run out, and those whose next attempt is due.
func (t *Table) giveBack(ctx context.Context) error {
	return t.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, t.sql("SELECT seq FROM @table WHERE state IN ('claimed', 'retrying') AND "+
			"next_attempt_at <= @now LIMIT 1000"+t.dialect.skip))
		if err != nil {
			return err
		}
		seqs, err := numbers(rows)
		if err != nil || len(seqs) == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, t.sql("UPDATE @table SET "+free+" WHERE seq IN (@seqs)", seqs...))
		return err
	})
}

// free makes a row wait for any relay.
const free = "state = 'waiting', claimed_by = '', claimed_until = 0, next_attempt_at = 0"

func numbers(rows *sql.Rows) (list []int64, err error) {
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// claim claims rows whose earlier rows, by key and by job, are gone or in the same claim. It holds no lock when it
// returns.
func (t *Table) claim(ctx context.Context, id string, by rules) (*claim, error) {
	c := &claim{id: id, end: time.Now().Add(by.lasts)}
	err := t.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := t.candidates(ctx, tx, by)
		if err != nil || len(rows) == 0 {
			return err
		}
		if c.rows, err = t.unblocked(ctx, tx, rows, by); err != nil || len(c.rows) == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, t.sql("UPDATE @table SET state = 'claimed', claimed_by = ?, "+
			"claimed_until = @now + ?, next_attempt_at = @now + ? WHERE seq IN (@seqs)", c.seqs()...), id, by.lasts.Milliseconds(),
			by.lasts.Milliseconds())
		return err
	})
	if err != nil || len(c.rows) == 0 {
		return c, err
	}
	return c, t.read(ctx, c)
}

// candidates locks rows that wait, and that no row of another claim, or that is retried or set aside, holds up. This is
// for speed: without it, the rows behind one that is set aside would be read before those of other keys. What counts is
// unblocked.
func (t *Table) candidates(ctx context.Context, tx *sql.Tx, by rules) (list []Row, err error) {
	before := []string{retrying, refused}
	if by.skip {
		before = []string{retrying}
	}
	query := "SELECT c.seq, COALESCE(c.ordered_by, ''), COALESCE(c.job, ''), COALESCE(LENGTH(c.body), 0) " +
		"FROM @table c WHERE c.state = 'waiting' AND c.next_attempt_at = 0"
	none := func(name string) string {
		same := " AND NOT EXISTS (SELECT 1 FROM @table e WHERE e." + name + " = c." + name
		clause := same + " AND e.state = 'claimed')"
		for _, state := range before { // with IN (…), MariaDB would read all rows of a key for each row
			clause += same + " AND e.state = '" + state + "' AND e.seq < c.seq)"
		}
		return clause
	}
	query += none("ordered_by") + none("job")
	rows, err := tx.QueryContext(ctx, t.sql(query+" ORDER BY c.seq LIMIT ?"+t.dialect.skip), by.rows)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	left := by.bytes
	for rows.Next() {
		var r Row
		size := int64(0)
		if err := rows.Scan(&r.Seq, &r.OrderedBy, &r.job, &size); err != nil {
			return nil, err
		}
		if left -= size; left >= 0 || len(list) == 0 {
			list = append(list, r)
		}
		if left < 0 {
			break
		}
	}
	return list, rows.Err()
}

// unblocked returns the rows without those that are held up by a row that is not among them. It reads what was
// committed before it, while the rows are locked. A row that another relay is claiming at the same time is seen here as
// one that waits: it holds up the later ones.
func (t *Table) unblocked(ctx context.Context, tx *sql.Tx, rows []Row, by rules) ([]Row, error) {
	mine, last := map[int64]bool{}, rows[len(rows)-1].Seq
	for i := range rows {
		mine[rows[i].Seq] = true
	}
	from := map[string]int64{} // by a row's name: the first row that is held up
	for _, name := range []string{"ordered_by", "job"} {
		if err := t.holes(ctx, tx, name, rows, last, by, func(seq int64, value, state string) {
			switch {
			case mine[seq]:
				return
			case state == claimed:
				seq = 0
			}
			key := map[string]string{"ordered_by": "key ", "job": "job "}[name] + value
			if at, known := from[key]; !known || seq < at {
				from[key] = seq
			}
		}); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(rows, func(r Row) bool {
		held := slices.ContainsFunc(r.names(), func(name string) bool {
			at, found := from[name]
			return found && at < r.Seq
		})
		if held { // and so are the later rows of its names
			for _, name := range r.names() {
				if at, known := from[name]; !known || r.Seq < at {
					from[name] = r.Seq
				}
			}
		}
		return held
	}), nil
}

// holes reads the rows up to last that have the same value of a column as some of rows, and all claimed ones.
func (t *Table) holes(ctx context.Context, tx *sql.Tx, column string, rows []Row, last int64, by rules,
	found func(seq int64, value, state string),
) error {
	values := map[string]bool{}
	for i := range rows {
		values[map[string]string{"ordered_by": rows[i].OrderedBy, "job": rows[i].job}[column]] = true
	}
	delete(values, "")
	if len(values) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(values)+1)
	for v := range values {
		args = append(args, v)
	}
	args = append(append(args, args...), last)
	earlier := "'waiting', 'retrying', 'refused'"
	if by.skip {
		earlier = "'waiting', 'retrying'"
	}
	// Each part is a range of an index. With OR in one WHERE, MariaDB reads all rows of the keys: a backlog.
	same := "SELECT seq, " + column + ", state FROM @table WHERE " + column + " IN (" +
		strings.Repeat("?, ", len(values)-1) + "?) AND state "
	list, err := tx.QueryContext(ctx, t.sql(same+"= 'claimed' UNION ALL "+same+"IN ("+earlier+") AND seq <= ?"), args...)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		var seq int64
		var value, state string
		if err := list.Scan(&seq, &value, &state); err != nil {
			return err
		}
		found(seq, value, state)
	}
	return list.Err()
}

// read reads the rows of a claim, in the order of seq.
func (t *Table) read(ctx context.Context, c *claim) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	rows, err := t.rows(ctx, "WHERE seq IN (@seqs) AND claimed_by = ? ORDER BY seq", c.seqs(), c.id)
	c.rows = rows
	return err
}

func (t *Table) rows(ctx context.Context, where string, seqs []int64, args ...any) (list []Row, err error) {
	rows, err := t.db.QueryContext(ctx, t.sql("SELECT "+columns+" FROM @table "+where, seqs...), args...)
	if err != nil {
		return nil, t.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		if err := rows.Scan(r.fields()...); err != nil {
			return nil, t.explain(err)
		}
		list = append(list, r)
	}
	return list, t.explain(rows.Err())
}

// extend prolongs a claim of rows from now on. Rows that have been given back to others are gone from it.
func (t *Table) extend(ctx context.Context, c *claim, lasts time.Duration) error {
	end := time.Now().Add(lasts)
	err := t.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		ms := lasts.Milliseconds()
		result, err := tx.ExecContext(ctx, t.sql("UPDATE @table SET claimed_until = @now + ?, "+
			"next_attempt_at = @now + ? WHERE seq IN (@seqs) AND claimed_by = ?", c.seqs()...), ms, ms, c.id)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != int64(len(c.rows)) {
			return fmt.Errorf("claim %s has run out", c.id)
		}
		return nil
	})
	if err == nil {
		c.end = end
	}
	return err
}
