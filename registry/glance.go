package registry

import (
	"context"
	"database/sql"
	"time"

	"github.com/wakecall/wakecall/migrations"
)

// A glance asks SQLite, over a connection of its own, whether anybody else has committed anything since. That costs a tenth of reading the revision, and
// every process of a host looks more than once a second.
type glance struct {
	r    *Registry
	conn *sql.Conn
	ask  *sql.Stmt // prepared: a process at rest has none of the code that parses at hand
	last int64     // version of the data that was followed last
	at   time.Time // when; zero: it is to be followed whatever the version is
}

// glanceFor is how long glances are trusted before the revision is read all the same.
const glanceFor = 10 * time.Second

// nothingNew says whether the registry is as it was when it was followed last.
func (g *glance) nothingNew(ctx context.Context) bool {
	if g.r.address.dialect != migrations.SQLite {
		return false
	}
	version, err := g.version(ctx)
	if err != nil {
		g.close()
		g.at = time.Time{}
		return false
	}
	if g.r.Up() && version == g.last && time.Since(g.at) < glanceFor {
		return true
	}
	g.last, g.at = version, time.Now() // from before it is followed: what is committed meanwhile shows at the next glance
	return false
}

func (g *glance) version(ctx context.Context) (version int64, err error) {
	if g.conn == nil {
		g.at = time.Time{} // versions of different connections cannot be compared
		if g.conn, err = g.r.sql.Conn(ctx); err != nil {
			return 0, err
		}
		if g.ask, err = g.conn.PrepareContext(ctx, "PRAGMA data_version"); err != nil {
			return 0, err
		}
	}
	// Without ctx, which would cost more than the question: SQLite waits for three seconds at most.
	err = g.ask.QueryRowContext(context.WithoutCancel(ctx)).Scan(&version)
	return version, err
}

func (g *glance) close() {
	if g.ask != nil {
		_ = g.ask.Close()
	}
	if g.conn != nil {
		_ = g.conn.Close() // it goes back to the others
	}
	g.ask, g.conn = nil, nil
}
