package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/migrations"
)

// Timeout limits every operation that a caller waits for. Only tests change it, because their machine may be busy.
var Timeout = 4 * time.Second

// DB is a database handle. Its methods may be called from any goroutine.
type DB struct {
	Key seal.Key // encrypts and decrypts stored secrets

	dsn     string // without a password
	address *parsedDSN
	sql     *sql.DB
	gorm    *gorm.DB
	up      atomic.Bool
	current atomic.Bool // the schema is known to be current
}

// Open prepares a connection pool. A server need not be up yet.
func Open(dsn string, key seal.Key) (*DB, error) {
	db := &DB{Key: key, dsn: address.Mask(dsn)}
	if err := db.open(dsn); err != nil {
		return nil, fmt.Errorf("registry %s: %w", db.dsn, err)
	}
	return db, nil
}

func (db *DB) open(dsn string) (err error) {
	if db.address, err = parseDSN(dsn); err != nil {
		return err
	}
	if db.sql, err = db.address.open(); err != nil {
		return err
	}
	if db.gorm, err = db.address.gorm(db.sql); err != nil {
		return errors.Join(err, db.sql.Close())
	}
	return nil
}

// String returns the DSN without its password.
func (db *DB) String() string { return db.dsn }

// Close closes the connections.
func (db *DB) Close() error { return db.sql.Close() }

// Up reports whether the database answered the last operation.
func (db *DB) Up() bool { return db.up.Load() }

// Ping checks that the database answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return db.classify(db.sql.PingContext(ctx))
}

// Do runs an operation, limited by Timeout, and classifies its error.
func (db *DB) Do(ctx context.Context, operation func(tx *gorm.DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return db.classify(operation(db.gorm.WithContext(ctx)))
}

// Change is like Do, but in a transaction. The operation is repeated if the database undoes it because of a concurrent
// one.
func (db *DB) Change(ctx context.Context, operation func(tx *gorm.DB) error) error {
	options := &sql.TxOptions{}
	if db.address.dialect == migrations.Postgres {
		options.Isolation = sql.LevelReadCommitted // whatever the server's default
	}
	return db.Do(ctx, func(tx *gorm.DB) error {
		err := tx.Transaction(operation, options)
		for range conflictRepeats {
			if !isConflict(err) || !pause.For(tx.Statement.Context, rand.N(conflictPause)) {
				break
			}
			err = tx.Transaction(operation, options)
		}
		return err
	})
}

const (
	conflictRepeats = 5
	conflictPause   = 100 * time.Millisecond
)

// Read runs an operation on a consistent state of the database without blocking writers. It sets no time limit.
func (db *DB) Read(ctx context.Context, operation func(tx *gorm.DB) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if db.address.dialect != migrations.SQLite {
		options.Isolation = sql.LevelRepeatableRead
	}
	return db.classify(db.gorm.WithContext(ctx).Transaction(operation, options))
}

// Clock returns an SQL expression for the database's time in Unix milliseconds, on which even hosts with wrong clocks
// agree.
func (db *DB) Clock() string {
	switch db.address.dialect {
	case migrations.SQLite:
		return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
	case migrations.Postgres:
		return "CAST(FLOOR(EXTRACT(EPOCH FROM statement_timestamp()) * 1000) AS BIGINT)"
	}
	return "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"
}

// Migrate migrates the schema and returns the number of applied steps. Several hosts may call it concurrently.
func (db *DB) Migrate(ctx context.Context) (int, error) { return db.migrate(ctx, migrations.Up) }

// Create is Migrate for an empty database only; see migrations.Create.
func (db *DB) Create(ctx context.Context) (int, error) { return db.migrate(ctx, migrations.Create) }

func (db *DB) migrate(
	ctx context.Context, by func(context.Context, *sql.DB, migrations.Dialect) (int, error),
) (int, error) {
	patient, err := db.address.openForMigration()
	if err != nil {
		return 0, db.classify(err)
	}
	n, err := by(ctx, patient, db.address.dialect)
	return n, errors.Join(db.classify(err), patient.Close())
}

// Migrations returns the schema's steps.
func (db *DB) Migrations(ctx context.Context) ([]migrations.Step, error) {
	steps, err := migrations.Status(ctx, db.sql, db.address.dialect)
	return steps, db.classify(err)
}

// CheckSchema returns ErrSchemaOlder or ErrSchemaNewer unless the schema matches this binary. After a match, it does
// not read the schema again.
func (db *DB) CheckSchema(ctx context.Context) error {
	if db.current.Load() {
		return nil
	}
	steps, err := db.Migrations(ctx)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if !s.Applied {
			return fmt.Errorf("%w (step %d is missing)", ErrSchemaOlder, s.Version)
		}
	}
	db.current.Store(true)
	return nil
}

// Find reads the row whose column has a value, and reports whether it exists.
func Find(tx *gorm.DB, row any, column string, value any) (found bool, err error) {
	err = tx.Where(clause.Eq{Column: column, Value: value}).Take(row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return false, nil
	}
	return err == nil, err
}

// List returns the rows of a query.
func List[Row any](ctx context.Context, db *DB, query func(tx *gorm.DB) *gorm.DB) (rows []Row, err error) {
	err = db.Do(ctx, func(tx *gorm.DB) error { return query(tx).Find(&rows).Error })
	return rows, err
}

// Find calls the function Find as a separate operation.
func (db *DB) Find(ctx context.Context, row any, column string, value any) (found bool, err error) {
	err = db.Do(ctx, func(tx *gorm.DB) (err error) {
		found, err = Find(tx, row, column, value)
		return err
	})
	return found, err
}

// MustFind is like Find, but returns missing if the row does not exist.
func MustFind(tx *gorm.DB, row any, column string, value any, missing error) error {
	found, err := Find(tx, row, column, value)
	if err == nil && !found {
		return missing
	}
	return err
}

// Upsert makes Create replace an existing row.
func Upsert(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.OnConflict{UpdateAll: true}) }

// InsertNew makes Create leave an existing row as it is.
func InsertNew(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.OnConflict{DoNothing: true}) }

// Now returns the current time with the precision that the databases store.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Clip truncates a text to the number of characters that its column can hold, and replaces what a database may refuse.
func Clip(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most])
	}
	return s
}

const (
	// MaxLimit is the largest number of rows that a list returns.
	MaxLimit = 1000
	// BatchRows is how many rows one statement inserts: SQLite accepts 32,766 values.
	BatchRows = 1000

	defaultLimit = 100
)

// Limit returns how many rows a list returns: the requested number, within bounds.
func Limit(asked int) int {
	if asked <= 0 {
		return defaultLimit
	}
	return min(asked, MaxLimit)
}
