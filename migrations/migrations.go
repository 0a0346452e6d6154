package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/pressly/goose/v3"
)

//go:embed mysql/*.sql postgres/*.sql sqlite/*.sql
var files embed.FS

// Dialect names the database.
type Dialect string

// The databases.
const (
	MySQL    Dialect = "mysql"
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// ErrSchemaNewer means that a newer wakecall has migrated the schema in a way that this one cannot read.
var ErrSchemaNewer = errors.New("the registry's schema is too new for this wakecall: use a newer binary, " +
	"or restore a backup")

// ErrUnreleased means that a commit from before the first release wrote the schema.
var ErrUnreleased = errors.New("an earlier, unreleased version of Wakecall wrote this registry: start with an empty " +
	"database, Redis and data_dir, or drain it with the commit that wrote it")

// ErrEncoding means that a database of PostgreSQL has another encoding than UTF8.
var ErrEncoding = errors.New("the registry's database must have the encoding UTF8: create it with CREATE DATABASE " +
	"NAME ENCODING 'UTF8' TEMPLATE template0")

// versionTable is where goose records the applied steps. Unreleased versions had another one.
const (
	versionTable    = "schema_migrations"
	unreleasedTable = "schema_version"
	readerTable     = "schema_reader"
)

// Step is one migration.
type Step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"` // "of a newer version" for a step that this binary does not know
	Applied bool   `json:"applied"`
}

// Up applies the missing steps and returns their number. When several hosts call it at once, one of them migrates and
// the others wait. The connections of db need read timeouts longer than a step takes.
func Up(ctx context.Context, db *sql.DB, d Dialect) (applied int, err error) {
	return up(ctx, db, d, false)
}

// Create is Up for an empty database only. In another one it waits until nobody migrates, and changes nothing.
func Create(ctx context.Context, db *sql.DB, d Dialect) (applied int, err error) {
	return up(ctx, db, d, true)
}

func up(ctx context.Context, db *sql.DB, d Dialect, onlyEmpty bool) (applied int, err error) {
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
	if err := checkEncoding(ctx, db, d); err != nil {
		return 0, err
	}
	if err := mendVersions(ctx, db, d); err != nil {
		return 0, fmt.Errorf("migrate the registry: %w", err)
	}
	if newer, err := newerBy(ctx, db, d, p); newer > 0 || err != nil {
		return 0, err
	}
	if have, err := p.GetDBVersion(ctx); err != nil || onlyEmpty && have > 0 {
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
	newer, err := newerBy(ctx, db, d, p)
	if newer > 0 {
		steps = append(steps, Step{Version: newer, Name: "of a newer version", Applied: true})
	}
	return steps, err
}

func pending(p *goose.Provider) []Step {
	var steps []Step
	for _, s := range p.ListSources() {
		steps = append(steps, Step{Version: s.Version, Name: s.Path})
	}
	return steps
}

var gooseDialects = map[Dialect]goose.Dialect{
	MySQL: goose.DialectMySQL, Postgres: goose.DialectPostgres, SQLite: goose.DialectSQLite3,
}

func provider(db *sql.DB, d Dialect) (*goose.Provider, error) {
	dir, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", d, err)
	}
	p, err := goose.NewProvider(gooseDialects[d], db, dir, goose.WithTableName(versionTable))
	if err != nil {
		return nil, fmt.Errorf("migrations for %s: %w", d, err)
	}
	return p, nil
}

// newerBy returns the schema's version if a newer wakecall has migrated it, else 0. It returns ErrSchemaNewer if that
// schema no longer serves this binary.
func newerBy(ctx context.Context, db *sql.DB, d Dialect, p *goose.Provider) (int64, error) {
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the registry's schema version: %w", err)
	}
	if have <= want {
		return 0, nil
	}
	oldest, err := oldestReader(ctx, db, d)
	if err != nil {
		return 0, fmt.Errorf("read the registry's oldest reader: %w", err)
	}
	if want < oldest {
		return 0, fmt.Errorf("%w (schema %d serves binaries that know schema %d; this one knows %d)",
			ErrSchemaNewer, have, oldest, want)
	}
	return have, nil
}

// oldestReader returns the version that a binary must know to use the schema. A newer step that old binaries cannot
// work with raises it.
func oldestReader(ctx context.Context, db *sql.DB, d Dialect) (oldest int64, err error) {
	there, err := hasTable(ctx, db, d, readerTable)
	if err != nil || !there {
		return math.MaxInt64, err
	}
	err = db.QueryRowContext(ctx, "SELECT MAX(oldest) FROM "+readerTable).Scan(&oldest)
	return oldest, err
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

// checkEncoding returns ErrEncoding if a database of PostgreSQL cannot store every text.
func checkEncoding(ctx context.Context, db *sql.DB, d Dialect) error {
	if d != Postgres {
		return nil
	}
	var encoding string
	if err := db.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return fmt.Errorf("read the database's encoding: %w", err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w (it is %s)", ErrEncoding, encoding)
	}
	return nil
}

// mendVersions completes the version table if a host died between creating it and inserting its first row, which can
// only happen on MySQL.
func mendVersions(ctx context.Context, db *sql.DB, d Dialect) error {
	there, err := hasTable(ctx, db, d, versionTable)
	if err != nil || !there || d != MySQL {
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

// tablesNamed are queries for the number of tables with a name.
var tablesNamed = map[Dialect]string{
	MySQL:    "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
	Postgres: "SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = $1",
	SQLite:   "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?",
}

func hasTable(ctx context.Context, db *sql.DB, d Dialect, name string) (bool, error) {
	var n int
	err := db.QueryRowContext(ctx, tablesNamed[d], name).Scan(&n)
	return n > 0, err
}
