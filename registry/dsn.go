package registry

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite" // the pure Go driver "sqlite"

	"github.com/wakecall/wakecall/migrations"
)

// The limits of a connection: what is silent for longer counts as away. A step of a migration may take longer, on a large table.
const (
	dialTimeout  = 3 * time.Second
	ioTimeout    = 3 * time.Second
	stepTimeout  = 10 * time.Minute
	maxOpenConns = 4
	maxIdleConns = 2
	logPause     = 5 * time.Millisecond
)

// address is a DSN taken apart.
type address struct {
	dialect migrations.Dialect
	path    string              // of SQLite
	mysql   *mysqldriver.Config // of MySQL
}

func parseDSN(dsn string) (*address, error) {
	kind, rest, _ := strings.Cut(dsn, ":")
	switch kind {
	case "sqlite":
		path, err := sqlitePath(rest)
		return &address{dialect: migrations.SQLite, path: path}, err
	case "mysql":
		c, err := mysqlConfig(strings.TrimPrefix(rest, "//"))
		return &address{dialect: migrations.MySQL, mysql: c}, err
	}
	return nil, errors.New("it is neither sqlite:PATH nor mysql://user:password@tcp(host:3306)/database")
}

func sqlitePath(rest string) (string, error) {
	path, slashes := strings.CutPrefix(rest, "//")
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return "", errors.New("it has no path; write sqlite:PATH, like sqlite:/var/lib/wakecall/registry.db")
	case path == ":memory:":
		return "", errors.New("a database in memory would be another one for every process; write sqlite:PATH")
	case slashes && !strings.HasPrefix(path, "/"):
		return "", fmt.Errorf("the path is not absolute behind //; write sqlite:%s for one in the working directory", path)
	}
	return path, nil
}

// mysqlConfig is the driver's configuration. Its own error may show the password, so it is not passed on.
func mysqlConfig(dsn string) (*mysqldriver.Config, error) {
	c, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("it has not the form mysql://user:password@tcp(host:3306)/database, or mysql://user:password@unix(/path/sock)/database")
	}
	if c.DBName == "" {
		return nil, errors.New("it names no database; write mysql://user:password@tcp(host:3306)/database")
	}
	c.ParseTime, c.Loc = true, time.UTC
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	c.RejectReadOnly = true             // behind a fail-over: leave what has become a replica
	c.Logger = &mysqldriver.NopLogger{} // what matters comes back as an error
	if err := c.Apply(mysqldriver.Charset("utf8mb4", "")); err != nil {
		return nil, fmt.Errorf("character set: %w", err)
	}
	return c, nil
}

// open makes a pool of connections, none of them made yet.
func (a *address) open() (*sql.DB, error) {
	if a.dialect == migrations.SQLite {
		return openSQLite(a.path)
	}
	connector, err := mysqldriver.NewConnector(a.mysql)
	if err != nil {
		return nil, err
	}
	return bounded(sql.OpenDB(connector)), nil
}

// openPatient is open for migrations, which may keep a connection waiting.
func (a *address) openPatient() (*sql.DB, error) {
	if a.dialect == migrations.SQLite {
		return openSQLite(a.path)
	}
	patient := &address{dialect: a.dialect, mysql: a.mysql.Clone()}
	patient.mysql.ReadTimeout = stepTimeout
	return patient.open()
}

func bounded(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(maxOpenConns)
	db.SetMaxIdleConns(maxIdleConns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(30 * time.Minute)
	return db
}

// sqliteOptions: writers wait for each other (from the start of a transaction: a reader that becomes a writer could not), and a change
// that was answered survives a power failure. The cache of pages is small: the system has one, too, for all processes.
const sqliteOptions = "?_pragma=busy_timeout(3000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-512)&_txlock=immediate"

var sqliteEscapes = strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")

func openSQLite(path string) (*sql.DB, error) {
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+sqliteEscapes.Replace(path)+sqliteOptions)
	if err != nil {
		return nil, err
	}
	turnOnLog(db)
	return bounded(db), nil
}

// turnOnLog has one connection be made, which turns the write-ahead log on in a new file. Of several processes that do so at once SQLite
// tells all but one that the file is locked, without the wait of busy_timeout; once it is on, that cannot happen. Any other trouble is for
// the first statement to find.
func turnOnLog(db *sql.DB) {
	for deadline := time.Now().Add(ioTimeout); isBusy(db.Ping()) && time.Now().Before(deadline); {
		time.Sleep(logPause)
	}
}

// makePrivate makes the database's file readable by its owner only; SQLite gives the files beside it the same mode. A file that is there is
// never opened here: closing it would drop the locks that this process's connections have on it.
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
		return nil // another process was first
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func (a *address) gorm(db *sql.DB) (*gorm.DB, error) {
	var dialector gorm.Dialector = &sqlite.Dialector{Conn: db}
	if a.dialect == migrations.MySQL {
		dialector = mysql.New(mysql.Config{Conn: db, SkipInitializeWithVersion: true})
	}
	return gorm.Open(dialector, &gorm.Config{
		Logger: logger.Discard, DisableAutomaticPing: true, TranslateError: true, NowFunc: func() time.Time { return time.Now().UTC() },
	})
}

var (
	// credentials are the user and the password in front of an address. The last @ ends them: a password may have others.
	credentials = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]*:(?://)?)([^:@/]*):.*@`)
	// foreign is what may be a password in an address of no form that is known.
	foreign = regexp.MustCompile(`(?s):.*@`)
)

// MaskDSN hides the password of a registry's address.
func MaskDSN(dsn string) string {
	switch kind, _, _ := strings.Cut(dsn, ":"); kind {
	case "sqlite":
		return dsn
	case "mysql":
		return credentials.ReplaceAllString(dsn, "$1$2:***@")
	}
	return foreign.ReplaceAllString(dsn, ":***@")
}

// MaskURL hides the password of a shard's address.
func MaskURL(u string) string { return credentials.ReplaceAllString(u, "$1$2:***@") }
