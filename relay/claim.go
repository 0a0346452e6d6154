package relay

import (
	"context"
	"database/sql"
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

// names are what the row has in common with rows that must not be carried at the same time: its key and its job, each
// after its column.
func (r *Row) names() (names []string) {
	if r.OrderedBy != "" {
		names = append(names, "ordered_by "+r.OrderedBy)
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

// rules of a claim.
type rules struct {
	rows  int // at most
	lasts time.Duration
	skip  bool // rows that are set aside hold up no others
}

// Rows that may be claimed: those whose claim has run out or whose next attempt is due, and those that wait.
const (
	again = "c.state IN ('claimed', 'retrying') AND c.next_attempt_at <= @now"
	first = "c.state = 'waiting' AND c.next_attempt_at = 0"
)

// free makes a row wait for any relay.
const free = "state = 'waiting', claimed_by = '', claimed_until = 0, next_attempt_at = 0"

// claim claims rows whose earlier rows, by key and by job, are gone or in the same claim. It holds no lock when it
// returns. An idle relay asks one question, which locks nothing.
func (t *Table) claim(ctx context.Context, id string, by rules) (*claim, error) {
	c := &claim{id: id, end: time.Now().Add(by.lasts)}
	if found, err := t.anything(ctx); err != nil || !found {
		return c, err
	}
	return c, t.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		seqs, err := t.candidates(ctx, tx, by)
		if err != nil || len(seqs) == 0 {
			return err
		}
		rows, err := t.rows(ctx, tx, "WHERE seq IN (@seqs) ORDER BY seq", seqs)
		if err != nil {
			return err
		}
		before, err := t.before(ctx, tx, rows, by.skip)
		if err != nil {
			return err
		}
		if c.rows, _ = before.split(rows); len(c.rows) == 0 {
			return nil
		}
		_, err = tx.ExecContext(ctx, t.sql("UPDATE @table SET state = 'claimed', claimed_by = ?, "+
			"claimed_until = @now + ?, next_attempt_at = @now + ? WHERE seq IN (@seqs)", seqsOf(c.rows)...), id,
			by.lasts.Milliseconds(), by.lasts.Milliseconds())
		return err
	})
}

func (t *Table) anything(ctx context.Context) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	const one = "EXISTS (SELECT 1 FROM @table c WHERE "
	err = t.db.QueryRowContext(ctx, t.sql("SELECT "+one+first+") OR "+one+again+")")).Scan(&found)
	return found, t.explain(err)
}

// candidates locks rows that may be claimed, and that no row of another claim, or that is retried or set aside, holds
// up. This is for speed: without it, the rows behind one that is set aside would be read before those of other keys.
// What counts is before, which reads what was committed when the rows are locked.
func (t *Table) candidates(ctx context.Context, tx *sql.Tx, by rules) (seqs []int64, err error) {
	var clause strings.Builder
	for _, column := range []string{"ordered_by", "job"} {
		// For each row, this reads an index by key. With IN (…), MariaDB would read all rows of a key, and with
		// next_attempt_at in place of claimed_until, SQLite all claimed rows.
		same := " AND NOT EXISTS (SELECT 1 FROM @table e WHERE e." + column + " = c." + column + " AND e.state = "
		clause.WriteString(same + "'claimed' AND e.claimed_until > @now)" + same + "'retrying' AND e.seq < c.seq)")
		if !by.skip {
			clause.WriteString(same + "'refused' AND e.seq < c.seq)")
		}
	}
	bytes := int64(bytesOfClaim)
	for _, due := range []string{again, first} {
		rows, err := tx.QueryContext(ctx, t.sql("SELECT c.seq, COALESCE(LENGTH(c.body), 0) FROM @table c WHERE "+
			due+clause.String()+" ORDER BY c.seq LIMIT ?"+t.dialect.skip), by.rows-len(seqs))
		if err := scanEach(rows, err, func(scan scanner) error {
			var seq, size int64
			err := scan(&seq, &size)
			if bytes -= size; bytes >= 0 || len(seqs) == 0 {
				seqs = append(seqs, seq)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return seqs, nil
}

// holes has, by name, the first row that holds up the later ones.
type holes map[string]int64

func (h holes) add(r *Row) {
	for _, name := range r.names() {
		if at, known := h[name]; !known || r.Seq < at {
			h[name] = r.Seq
		}
	}
}

// split separates rows, in the order of seq, from those that are held up. These hold up the later ones of their names.
func (h holes) split(rows []Row) (ready, held []Row) {
	for i := range rows {
		r := rows[i]
		if !slices.ContainsFunc(r.names(), func(name string) bool {
			at, known := h[name]
			return known && at < r.Seq
		}) {
			ready = append(ready, r)
			continue
		}
		held = append(held, r)
		h.add(&r)
	}
	return ready, held
}

// before reads the first row of each name that is not among rows. A row that another relay is claiming at the same time
// is seen here as one that waits.
func (t *Table) before(ctx context.Context, tx *sql.Tx, rows []Row, skip bool) (holes, error) {
	h, seqs := holes{}, seqsOf(rows)
	states := "'waiting', 'claimed', 'retrying'"
	if !skip {
		states += ", 'refused'"
	}
	for _, column := range []string{"ordered_by", "job"} {
		values := []any{}
		for i := range rows {
			for _, name := range rows[i].names() {
				if value, ok := strings.CutPrefix(name, column+" "); ok {
					values = append(values, value)
				}
			}
		}
		if len(values) == 0 {
			continue
		}
		marks := strings.Repeat("?, ", len(values)-1) + "?"
		list, err := tx.QueryContext(ctx, t.sql("SELECT "+column+", MIN(seq) FROM @table WHERE "+column+" IN ("+marks+
			") AND state IN ("+states+") AND seq <= ? AND seq NOT IN (@seqs) GROUP BY "+column, seqs...),
			append(values, seqs[len(seqs)-1])...)
		if err := scanEach(list, err, func(scan scanner) error {
			value, seq := "", int64(0)
			err := scan(&value, &seq)
			h[column+" "+value] = seq
			return err
		}); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func seqsOf(rows []Row) []int64 {
	seqs := make([]int64, len(rows))
	for i := range rows {
		seqs[i] = rows[i].Seq
	}
	return seqs
}

// source is a database or a transaction.
type source interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (t *Table) rows(
	ctx context.Context, from source, where string, seqs []int64, args ...any,
) (list []Row, err error) {
	rows, err := from.QueryContext(ctx, t.sql("SELECT "+columns+" FROM @table "+where, seqs...), args...)
	err = scanEach(rows, err, func(scan scanner) error {
		var r Row
		err := scan(r.fields()...)
		list = append(list, r)
		return err
	})
	return list, err
}
