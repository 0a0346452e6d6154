package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/relay/ddl"
)

// databaseTimeout bounds every operation on the database: a claim must not end while its relay waits for an answer.
const databaseTimeout = 4 * time.Second

// dialect is what differs between the databases.
type dialect struct {
	name  string
	clock string // the database's time, in Unix milliseconds
	skip  string // the end of a SELECT that locks its rows and passes over those that others have locked
}

// Transactions of SQLite are immediate: one writer at a time.
var (
	mysql = &dialect{
		ddl.MySQL, "(UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(3)) DIV 1000)", " FOR UPDATE SKIP LOCKED",
	}
	postgres = &dialect{
		ddl.Postgres, "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)", " FOR UPDATE SKIP LOCKED",
	}
	sqlite = &dialect{ddl.SQLite, "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", ""}
)

// noTable are the databases' errors about a table that is missing.
var noTable = regexp.MustCompile(`Error 1146|SQLSTATE 42P01|no such table`)

// numbered turns each ? into $1, $2 and so on. No statement has a ? in a text.
func numbered(query string) string {
	var b strings.Builder
	for n, part := range strings.Split(query, "?") {
		if n > 0 {
			fmt.Fprintf(&b, "$%d", n)
		}
		b.WriteString(part)
	}
	return b.String()
}

// dsnForms is what an error about a DSN proposes.
const dsnForms = "mysql://user:password@tcp(host:3306)/database, postgres://user:password@host:5432/database or " +
	"sqlite://FILE"

// Table is an outbox table in a database.
type Table struct {
	name     string
	database string // its name
	dsn      string // without a password
	db       *sql.DB
	dialect  *dialect
}

// Open opens a table. The database need not be up yet. The drivers' own errors could contain the password.
func Open(dsn, table string) (*Table, error) {
	if err := ddl.CheckTable(table); err != nil {
		return nil, err
	}
	t, err := &Table{name: table, dsn: address.Mask(dsn)}, error(nil)
	kind, rest, _ := strings.Cut(dsn, ":")
	rest = strings.TrimPrefix(rest, "//")
	switch kind {
	case "mysql":
		t.dialect = mysql
		t.db, t.database, err = openMySQL(rest)
	case "postgres", "postgresql":
		t.dialect = postgres
		t.db, t.database, err = openPostgres(dsn)
	case "sqlite":
		t.dialect = sqlite
		t.db, t.database, err = openSQLite(rest)
	default:
		err = errors.New("must be " + dsnForms)
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", t.dsn, err)
	}
	t.db.SetConnMaxLifetime(time.Minute) // after a failover, no connection stays with the old primary
	return t, nil
}

func openMySQL(dsn string) (*sql.DB, string, error) {
	c, err := database.MySQLConfig(dsn)
	if err != nil {
		return nil, "", err
	}
	c.ClientFoundRows = true // UPDATE counts rows that it does not change, as elsewhere
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, "", err
	}
	return sql.OpenDB(connector), c.DBName, nil
}

func openPostgres(dsn string) (*sql.DB, string, error) {
	c, err := database.PostgresConfig(dsn)
	if err != nil {
		return nil, "", err
	}
	return stdlib.OpenDB(*c), c.Database, nil
}

func openSQLite(path string) (*sql.DB, string, error) {
	if _, err := os.Stat(path); err != nil { // otherwise a mistyped path would be a new, empty database
		return nil, "", fmt.Errorf("%w; the service creates the file", err)
	}
	file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
		RawQuery: "mode=rw&_pragma=busy_timeout(3000)&_txlock=immediate"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, "", err
	}
	db.SetMaxOpenConns(1)
	return db, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), nil
}

// Close closes the connections.
func (t *Table) Close() error { return t.db.Close() }

// String names the table for people.
func (t *Table) String() string { return t.dsn + " " + t.name }

// Name identifies the table among those of an installation's relays, whatever the database's host.
func (t *Table) Name() string { return t.database + "." + t.name }

// do runs an operation in a transaction, bounded by databaseTimeout. Each statement sees what was committed before it.
func (t *Table) do(ctx context.Context, operation func(ctx context.Context, tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return t.explain(err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit, it does nothing
	if err := operation(ctx, tx); err != nil {
		return t.explain(err)
	}
	return t.explain(tx.Commit())
}

type scanner func(into ...any) error

// scanEach reads the rows that a query has returned.
func scanEach(rows *sql.Rows, err error, read func(scan scanner) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// explain names the table in an error, and the way out if it is missing.
func (t *Table) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case noTable.MatchString(err.Error()):
		return fmt.Errorf("no table %s in %s: create it with the output of `%s --table %s`", t.name, t.dsn,
			printable.Command("wakecall relay ddl", t.dialect.name), printable.Word(t.name))
	}
	return fmt.Errorf("%s: %w", t, err)
}

// sql fills in a statement: @table is its name, @now the database's clock, @seqs a list of rows.
func (t *Table) sql(statement string, seqs ...int64) string {
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(seqs), " ", ","), "[]")
	text := strings.NewReplacer("@table", t.name, "@now", t.dialect.clock, "@seqs", list).Replace(statement)
	if t.dialect == postgres {
		return numbered(text)
	}
	return text
}
