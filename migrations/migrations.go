// Package migrations holds the registry's schema as numbered SQL files, one folder a database, and applies them.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed mysql/*.sql sqlite/*.sql
var files embed.FS

// Dialect names the database.
type Dialect string

// The databases.
const (
	MySQL  Dialect = "mysql"
	SQLite Dialect = "sqlite"
)

// ErrSchemaNewer is a schema that a newer wakecall made.
var ErrSchemaNewer = errors.New("the registry's schema is newer than this wakecall: use the newer binary, or restore a backup")

// lockSeconds is how long one host waits while another migrates.
const lockSeconds = 60

// Up applies what is missing. Of several hosts that start at once one does the work; the others wait for it.
func Up(ctx context.Context, db *sql.DB, d Dialect) (applied int, err error) {
	unlock, err := lock(ctx, db, d)
	if err != nil {
		return 0, err
	}
	defer unlock()
	p, err := provider(db, d)
	if err != nil {
		return 0, err
	}
	if err := notNewer(ctx, p); err != nil {
		return 0, err
	}
	done, err := p.Up(ctx)
	if err != nil && d == SQLite && current(ctx, p) {
		return 0, nil // another process on this machine was first
	}
	if err != nil {
		return len(done), fmt.Errorf("migrate the registry: %w", err)
	}
	return len(done), nil
}

// Step is one migration.
type Step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// Status lists all migrations.
func Status(ctx context.Context, db *sql.DB, d Dialect) ([]Step, error) {
	p, err := provider(db, d)
	if err != nil {
		return nil, err
	}
	list, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the registry's schema version: %w", err)
	}
	var steps []Step
	for _, s := range list {
		steps = append(steps, Step{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied})
	}
	return steps, notNewer(ctx, p)
}

func provider(db *sql.DB, d Dialect) (*goose.Provider, error) {
	dir, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", d, err)
	}
	dialect := goose.DialectMySQL
	if d == SQLite {
		dialect = goose.DialectSQLite3
	}
	p, err := goose.NewProvider(dialect, db, dir, goose.WithTableName("schema_version"))
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", d, err)
	}
	return p, nil
}

func notNewer(ctx context.Context, p *goose.Provider) error {
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the registry's schema version: %w", err)
	}
	if have > want {
		return fmt.Errorf("%w (schema %d, this binary knows %d)", ErrSchemaNewer, have, want)
	}
	return nil
}

func current(ctx context.Context, p *goose.Provider) bool {
	have, want, err := p.GetVersions(ctx)
	return err == nil && have == want
}

// lock keeps other hosts from migrating at the same time. SQLite needs none: its one writer at a time and the version table do.
func lock(ctx context.Context, db *sql.DB, d Dialect) (unlock func(), err error) {
	if d == SQLite {
		return func() {}, nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock the registry's schema: %w", err)
	}
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK('wakecall_migrate', ?)", lockSeconds).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = fmt.Errorf("another host has been migrating for %d s", lockSeconds)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("lock the registry's schema: %w", err)
	}
	return func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK('wakecall_migrate')") // ends with the connection anyway
		_ = conn.Close()
	}, nil
}
