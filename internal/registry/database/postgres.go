package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// sessionSettings are settings of every connection that the driver relies on. Poolers know them.
var sessionSettings = map[string]string{"client_encoding": "UTF8", "datestyle": "ISO", "timezone": "UTC"}

// sessionTimeouts are settings of the registry's connections, unless the DSN has others. The server ends a transaction
// whose host has vanished, because it may have locked rows that other hosts wait for.
var sessionTimeouts = map[string]string{"statement_timeout": "60s", "idle_in_transaction_session_timeout": "60s"}

// PostgresConfig returns the driver's configuration. The driver's errors are replaced, because they may contain the
// password.
func PostgresConfig(dsn string) (*pgx.ConnConfig, error) {
	const form = "postgres://user:password@host:5432/database"
	c, err := pgx.ParseConfig(dsn)
	if file, ok := errors.AsType[*fs.PathError](err); ok { // of a certificate
		return nil, file
	}
	if err != nil {
		return nil, errors.New("expected " + form + "?sslmode=verify-full, with percent-encoding")
	}
	if c.Database == "" {
		return nil, errors.New("no database: write " + form)
	}
	maps.Copy(c.RuntimeParams, sessionSettings)
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip per statement, and poolers may be in between
	c.ConnectTimeout = dialTimeout
	limitConns(c, ioTimeout())
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite // not a standby
	}
	return c, nil
}

// registryPostgres is PostgresConfig for the registry.
func registryPostgres(dsn string) (*pgx.ConnConfig, error) {
	c, err := PostgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	params := maps.Clone(sessionTimeouts)
	maps.Copy(params, c.RuntimeParams)
	c.RuntimeParams = params
	return c, nil
}

// patientPostgres returns a configuration for statements that take as long as a step of a migration.
func patientPostgres(c *pgx.ConnConfig) *pgx.ConnConfig {
	c = c.Copy()
	c.RuntimeParams["statement_timeout"] = fmt.Sprint(stepTimeout.Milliseconds())
	limitConns(c, stepTimeout)
	return c
}

func openPostgres(c *pgx.ConnConfig) *sql.DB {
	return stdlib.OpenDB(*c, stdlib.OptionAfterConnect(func(_ context.Context, conn *pgx.Conn) error {
		types := conn.TypeMap()
		types.RegisterDefaultPgType(uint64(0), "int8") // instead of numeric, which uses no index of the IDs
		types.RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}))
}

// limitConns limits every read and write of a connection, as MySQL's driver does. Otherwise, an operation without a
// time limit would wait forever for a server that accepts connections and does not answer.
func limitConns(c *pgx.ConnConfig, limit time.Duration) {
	var dialer net.Dialer
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &limitedConn{Conn: conn, limit: limit}, nil
	}
}

type limitedConn struct {
	net.Conn
	limit time.Duration

	mu    sync.Mutex
	until time.Time // the driver's deadline, when a context has ended; otherwise zero
}

// SetDeadline implements net.Conn.
func (c *limitedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return c.Conn.SetDeadline(t)
}

func (c *limitedConn) Read(b []byte) (int, error) {
	c.begin(c.SetReadDeadline)
	return c.Conn.Read(b)
}

func (c *limitedConn) Write(b []byte) (int, error) {
	c.begin(c.SetWriteDeadline)
	return c.Conn.Write(b)
}

func (c *limitedConn) begin(set func(time.Time) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.IsZero() {
		_ = set(time.Now().Add(c.limit)) // a closed connection returns the error again
	}
}

// PostgreSQL's error codes.
const (
	pgBadText       = "22021" // text with a NUL character, or not UTF-8
	pgNoPrivilege   = "42501"
	pgSerialization = "40001"
	pgDeadlock      = "40P01"
)

// pgAnswers are the classes of PostgreSQL's errors about a statement or its values; see answers.
const pgAnswers = "0A 21 22 23 42"

// pgCode returns the code of a PostgreSQL error, and "" for any other error. An error while connecting is about no
// statement.
func pgCode(err error) string {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return ""
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

func isPostgresAnswer(code string) bool {
	return code != "" && code != pgNoPrivilege && strings.Contains(pgAnswers, code[:2])
}
