package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	sqlitedriver "modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"github.com/wakecall/wakecall/migrations"
)

// Errors of the registry. What else comes back is a *FieldError, or a fault of the registry itself.
var (
	ErrUnavailable = errors.New("the registry's database cannot be reached")
	ErrNoTopic     = errors.New("no such topic")
	ErrNoShard     = errors.New("no such shard")
	ErrNoToken     = errors.New("no such token")
	ErrNoUser      = errors.New("no such user")
	ErrExists      = errors.New("it exists already")
	ErrLastAdmin   = errors.New("it is the last user with the role admin: give the role to another first")
	ErrSchemaOlder = errors.New("the registry's schema is older than this wakecall: run `wakecall migrate up`")
	ErrSchemaNewer = migrations.ErrSchemaNewer
)

// errDone ends a transaction that found nothing to change.
var errDone = errors.New("nothing to change")

// known are errors that say something of the request, not of the database.
var known = []error{
	ErrNoTopic, ErrNoShard, ErrNoToken, ErrNoUser, ErrExists, ErrLastAdmin, ErrNoTask, ErrSecretKey, ErrSchemaNewer, ErrSchemaOlder, ErrUnavailable, context.Canceled, errDone,
}

// wrap makes ErrUnavailable of whatever a database says that is not its answer to what was asked.
func (r *Registry) wrap(err error) error {
	if err == nil {
		r.up.Store(true)
		return nil
	}
	if slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) {
		return err
	}
	var field *FieldError
	if errors.As(err, &field) {
		return err
	}
	if isAnswer(err) {
		r.up.Store(true)
		return fmt.Errorf("registry: %w", err)
	}
	r.up.Store(false)
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// answers are MySQL's errors about a statement or its values: the database is there, and trying again would not help. All others (refused
// users, too many connections, read-only, disk full, lock waits, a shutdown …) end when somebody mends the database.
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
	1366, // incorrect value
	1406, // data too long
}

func isAnswer(err error) bool {
	if errors.Is(err, errSpec) || errors.Is(err, gorm.ErrDuplicatedKey) || errors.Is(err, gorm.ErrRecordNotFound) {
		return true
	}
	var m *mysqldriver.MySQLError
	if errors.As(err, &m) {
		return slices.Contains(answers, m.Number)
	}
	switch sqliteCode(err) {
	case sqlitecode.SQLITE_ERROR, sqlitecode.SQLITE_CONSTRAINT, sqlitecode.SQLITE_TOOBIG, sqlitecode.SQLITE_MISMATCH, sqlitecode.SQLITE_RANGE:
		return true
	}
	return false
}

// isBusy says that SQLite's file is locked by another connection.
func isBusy(err error) bool { return sqliteCode(err) == sqlitecode.SQLITE_BUSY }

// sqliteCode is the primary result code of SQLite's error, and SQLITE_OK for any other.
func sqliteCode(err error) int {
	var s *sqlitedriver.Error
	if !errors.As(err, &s) {
		return sqlitecode.SQLITE_OK
	}
	return s.Code() & 0xff
}
