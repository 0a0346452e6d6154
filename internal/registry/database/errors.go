package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	sqlitedriver "modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"github.com/wakecall/wakecall/migrations"
)

// ErrUnavailable means that the database does not answer, or cannot currently serve requests.
var ErrUnavailable = errors.New("the registry's database cannot be reached")

// Errors of the schema's version.
var (
	ErrSchemaOlder = NewRefusal("the registry's schema is older than this wakecall: run `wakecall migrate up`")
	ErrSchemaNewer = migrations.ErrSchemaNewer
	ErrUnreleased  = migrations.ErrUnreleased
)

// ErrText means that a text cannot be stored. Only PostgreSQL refuses NUL characters.
var ErrText = NewRefusal("the text has a NUL character, or is not UTF-8")

// Refusal is an error about the request, not about the database. Do returns it unchanged.
type Refusal interface {
	error
	Refusal()
}

// NewRefusal returns a Refusal to compare with errors.Is.
func NewRefusal(text string) error { return &refusal{text} }

type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }
func (r *refusal) Refusal()      {}

// classify turns an error into ErrUnavailable if it is neither a refusal nor an error about a statement.
func (db *DB) classify(err error) error {
	var refused Refusal
	switch {
	case err == nil:
		db.up.Store(true)
		return nil
	case errors.As(err, &refused), errors.Is(err, ErrSchemaNewer), errors.Is(err, ErrUnreleased),
		errors.Is(err, migrations.ErrEncoding), errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled):
		return err
	case pgCode(err) == pgBadText:
		db.up.Store(true)
		return ErrText
	case isAnswer(err):
		db.up.Store(true)
		return fmt.Errorf("registry: %w", err)
	}
	db.up.Store(false)
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// answers are MySQL's errors about a statement or its values: the database is available, and retrying would not help.
// All other errors (rejected users, too many connections, read-only, disk full, lock waits, a shutdown) are temporary:
// they end when the database is repaired.
var answers = []uint16{
	1048, // column cannot be null
	1050, // table exists
	1051, // unknown table
	1054, // unknown column
	1060, // duplicate column
	1061, // duplicate key name
	1062, // duplicate entry
	1064, // syntax
	1146, // no such table
	1264, // out of range
	1265, // data truncated
	1292, // incorrect value of a type, such as a time
	1364, // no default value
	1366, // incorrect value
	1406, // data too long
}

func isAnswer(err error) bool {
	if strings.HasPrefix(err.Error(), "sql: converting argument") ||
		strings.HasPrefix(err.Error(), "failed to encode args") { // a value that the driver cannot send
		return true
	}
	if errors.Is(err, gorm.ErrDuplicatedKey) || errors.Is(err, gorm.ErrRecordNotFound) {
		return true
	}
	if m, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		return slices.Contains(answers, m.Number)
	}
	if code := pgCode(err); code != "" {
		return isPostgresAnswer(code)
	}
	switch sqliteCode(err) {
	case sqlitecode.SQLITE_ERROR, sqlitecode.SQLITE_CONSTRAINT, sqlitecode.SQLITE_TOOBIG, sqlitecode.SQLITE_MISMATCH,
		sqlitecode.SQLITE_RANGE:
		return true
	}
	return false
}

// mysqlDeadlock is MySQL's error when it ends one of several transactions that wait for each other.
const mysqlDeadlock = 1213

// isConflict reports whether the database undid a transaction because of concurrent ones, and it can be repeated.
func isConflict(err error) bool {
	if m, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		return m.Number == mysqlDeadlock
	}
	code := pgCode(err)
	return code == pgSerialization || code == pgDeadlock
}

// isBusy reports whether SQLite's file is locked by another connection.
func isBusy(err error) bool { return sqliteCode(err) == sqlitecode.SQLITE_BUSY }

// sqliteCode returns the primary result code of an SQLite error, and SQLITE_OK for any other error.
func sqliteCode(err error) int {
	var s *sqlitedriver.Error
	if !errors.As(err, &s) {
		return sqlitecode.SQLITE_OK
	}
	return s.Code() & 0xff
}
