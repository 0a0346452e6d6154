package database

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite" // the pure Go driver "sqlite"

	"github.com/wakecall/wakecall/migrations"
)

// Limits of a connection. A step of a migration may take longer on a large table.
const (
	dialTimeout  = 3 * time.Second
	stepTimeout  = 10 * time.Minute
	maxOpenConns = 4
	maxIdleConns = 2
	walPause     = 5 * time.Millisecond
)

// ioTimeout is shorter than an operation's timeout, so that an operation notices a lost server.
func ioTimeout() time.Duration { return Timeout * 3 / 4 }

// open returns a pool that has no connections yet.
func (a *parsedDSN) open() (*sql.DB, error) {
	switch a.dialect {
	case migrations.SQLite:
		return openSQLite(a.path)
	case migrations.Postgres:
		return bounded(openPostgres(a.postgres)), nil
	}
	connector, err := mysqldriver.NewConnector(a.mysql)
	if err != nil {
		return nil, err
	}
	return bounded(sql.OpenDB(connector)), nil
}

// openForMigration is like open, but with a read timeout that is long enough for a step of a migration.
func (a *parsedDSN) openForMigration() (*sql.DB, error) {
	patient := *a
	switch a.dialect {
	case migrations.MySQL:
		patient.mysql = a.mysql.Clone()
		patient.mysql.ReadTimeout = stepTimeout
	case migrations.Postgres:
		patient.postgres = patientPostgres(a.postgres)
	}
	return patient.open()
}

func bounded(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(maxOpenConns)
	db.SetMaxIdleConns(maxIdleConns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(30 * time.Minute)
	return db
}

// sqliteOptions have these effects. Writers wait for each other from the start of a transaction, because a reader could
// not become a writer. An acknowledged change survives a power failure. The page cache is small, because the system's
// cache serves all processes. Times are in UTC, as with MySQL.
const sqliteOptions = "?_pragma=busy_timeout(3000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
	"&_pragma=cache_size(-512)&_txlock=immediate&_timezone=UTC"

var sqliteEscapes = strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")

func openSQLite(path string) (*sql.DB, error) {
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+sqliteEscapes.Replace(path)+sqliteOptions)
	if err != nil {
		return nil, err
	}
	enableWAL(db)
	return bounded(db), nil
}

// enableWAL opens one connection, which turns on the write-ahead log of a new file. If several processes do so at once,
// SQLite reports to all but one that the file is locked, without waiting for busy_timeout. Any other error is left to
// the first statement.
func enableWAL(db *sql.DB) {
	for deadline := time.Now().Add(ioTimeout()); isBusy(db.Ping()) && time.Now().Before(deadline); {
		time.Sleep(walPause)
	}
}

// makePrivate makes the database's file readable by its owner only. SQLite creates the files beside it with the same
// mode. It never opens an existing file: closing it would release the locks that this process's connections hold on it.
func makePrivate(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(path, 0o600)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // created by another process
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func (a *parsedDSN) gorm(db *sql.DB) (*gorm.DB, error) {
	var dialector gorm.Dialector = &sqlite.Dialector{Conn: db}
	switch a.dialect {
	case migrations.MySQL:
		dialector = mysql.New(mysql.Config{Conn: db, SkipInitializeWithVersion: true})
	case migrations.Postgres:
		dialector = postgres.New(postgres.Config{Conn: db})
	}
	return gorm.Open(dialector, &gorm.Config{
		Logger: logger.Discard, DisableAutomaticPing: true, TranslateError: true,
		NowFunc: func() time.Time { return time.Now().UTC() },
	})
}
