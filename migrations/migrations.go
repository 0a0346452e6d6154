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

// ErrSchemaNewer means that a newer wakecall has migrated the schema.
var ErrSchemaNewer = errors.New("the registry's schema is newer than this wakecall: use the newer binary, " +
	"or restore a backup")

// ErrUnreleased means that a commit from before the first release wrote the schema.
var ErrUnreleased = errors.New("an earlier, unreleased version of Wakecall wrote this registry: start with an empty " +
	"database, Redis and data_dir, or drain it with the commit that wrote it")

// versionTable is where goose records the applied steps. Unreleased versions had another one.
const (
	versionTable    = "schema_migrations"
	unreleasedTable = "schema_version"
)

// Step is one migration.
type Step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// Up applies the missing steps and returns their number. When several hosts call it at once, one of them migrates and
// the others wait. The connections of db need read timeouts longer than a step takes.
func Up(ctx context.Context, db *sql.DB, d Dialect) (applied int, err error) {
	p, err := provider(db, d)
	if err != nil {
		return 0, err
	}
	unlock, err := lock(ctx, db, d)
	if err != nil {
		return 0, fmt.Errorf("lock the registry's schema: %w", err)
	}
	defer unlock()
	if err := released(ctx, db, d); err != nil {
		return 0, err
	}
	if err := mendVersions(ctx, db, d); err != nil {
		return 0, fmt.Errorf("migrate the registry: %w", err)
	}
	if err := notNewer(ctx, p); err != nil {
		return 0, err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return len(done), fmt.Errorf("migrate the registry: %w", err)
	}
	return len(done), nil
}

// Status returns all migrations. It changes nothing, even in an empty database.
func Status(ctx context.Context, db *sql.DB, d Dialect) ([]Step, error) {
	p, err := provider(db, d)
	if err != nil {
		return nil, err
	}
	if err := released(ctx, db, d); err != nil {
		return nil, err
	}
	used, err := hasVersions(ctx, db, d)
	if err != nil {
		return nil, fmt.Errorf("read the registry's schema version: %w", err)
	}
	if !used {
		return pending(p), nil
	}
	list, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the registry's schema version: %w", err)
	}
	steps := make([]Step, len(list))
	for i, s := range list {
		steps[i] = Step{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied}
	}
	return steps, notNewer(ctx, p)
}

func pending(p *goose.Provider) []Step {
	var steps []Step
	for _, s := range p.ListSources() {
		steps = append(steps, Step{Version: s.Version, Name: s.Path})
	}
	return steps
}

func provider(db *sql.DB, d Dialect) (*goose.Provider, error) {
	dialect := goose.DialectMySQL
	if d == SQLite {
		dialect = goose.DialectSQLite3
	}
	dir, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", d, err)
	}
	p, err := goose.NewProvider(dialect, db, dir, goose.WithTableName(versionTable))
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

// released returns ErrUnreleased for a schema that no release reads.
func released(ctx context.Context, db *sql.DB, d Dialect) error {
	there, err := hasTable(ctx, db, d, unreleasedTable)
	if err != nil {
		return fmt.Errorf("read the registry's schema version: %w", err)
	}
	if there {
		return ErrUnreleased
	}
	return nil
}

// mendVersions completes the version table if a host died between creating it and inserting its first row, which can
// only happen on MySQL.
func mendVersions(ctx context.Context, db *sql.DB, d Dialect) error {
	there, err := hasTable(ctx, db, d, versionTable)
	if err != nil || !there || d == SQLite {
		return err
	}
	_, err = db.ExecContext(ctx, "INSERT INTO "+versionTable+" (version_id, is_applied) "+
		"SELECT 0, 1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM "+versionTable+")")
	return err
}

// hasVersions reports whether the database was ever migrated.
func hasVersions(ctx context.Context, db *sql.DB, d Dialect) (bool, error) {
	there, err := hasTable(ctx, db, d, versionTable)
	if err != nil || !there {
		return false, err
	}
	var n int
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+versionTable).Scan(&n)
	return n > 0, err
}

func hasTable(ctx context.Context, db *sql.DB, d Dialect, name string) (bool, error) {
	query := "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	if d == SQLite {
		query = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
	}
	var n int
	err := db.QueryRowContext(ctx, query, name).Scan(&n)
	return n > 0, err
}
