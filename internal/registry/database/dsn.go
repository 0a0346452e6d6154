package database

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/wakecall/wakecall/migrations"
)

// parsedDSN is a DSN in the form that its driver needs.
type parsedDSN struct {
	dialect  migrations.Dialect
	path     string              // for SQLite
	mysql    *mysqldriver.Config // for MySQL
	postgres *pgx.ConnConfig     // for PostgreSQL
}

func parseDSN(dsn string) (*parsedDSN, error) {
	kind, rest, _ := strings.Cut(dsn, ":")
	switch kind {
	case "sqlite":
		path, err := sqlitePath(rest)
		return &parsedDSN{dialect: migrations.SQLite, path: path}, err
	case "mysql":
		c, err := MySQLConfig(strings.TrimPrefix(rest, "//"))
		return &parsedDSN{dialect: migrations.MySQL, mysql: c}, err
	case "postgres", "postgresql":
		c, err := registryPostgres(dsn)
		return &parsedDSN{dialect: migrations.Postgres, postgres: c}, err
	}
	return nil, errors.New("expected sqlite:PATH, mysql://user:password@tcp(host:3306)/database or " +
		"postgres://user:password@host:5432/database")
}

func sqlitePath(rest string) (string, error) {
	path, slashes := strings.CutPrefix(rest, "//")
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return "", errors.New("no path: write sqlite:PATH, like sqlite:/var/lib/wakecall/registry.db")
	case path == ":memory:":
		return "", errors.New("every process would have a different in-memory database; write sqlite:PATH")
	case slashes && !strings.HasPrefix(path, "/"):
		return "", fmt.Errorf(
			"the path after // is not absolute; write sqlite:%s for one in the working directory", path)
	}
	return path, nil
}

// MySQLConfig returns the driver's configuration. User and password may be percent-encoded, as in the URL of a Redis.
// The driver's errors are replaced, because they may contain the password.
func MySQLConfig(dsn string) (*mysqldriver.Config, error) {
	c, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("expected mysql://user:password@tcp(host:3306)/database " +
			"or mysql://user:password@unix(/path/sock)/database")
	}
	user, err1 := url.PathUnescape(c.User)
	password, err2 := url.PathUnescape(c.Passwd)
	if err1 != nil || err2 != nil {
		return nil, errors.New("its user or password has a % that begins no percent-encoding: write it as %25")
	}
	c.User, c.Passwd = user, password
	if c.DBName == "" {
		return nil, errors.New("no database: write mysql://user:password@tcp(host:3306)/database")
	}
	c.ParseTime, c.Loc = true, time.UTC
	c.InterpolateParams = true // one round trip per statement instead of two
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTimeout, ioTimeout(), ioTimeout()
	c.RejectReadOnly = true             // after a failover, drop connections to the new replica
	c.Logger = &mysqldriver.NopLogger{} // relevant messages are returned as errors
	if err := c.Apply(mysqldriver.Charset("utf8mb4", "")); err != nil {
		return nil, fmt.Errorf("set the character set: %w", err)
	}
	return c, nil
}
