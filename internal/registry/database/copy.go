package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/migrations"
)

// TableCopy is how many rows of a table were copied.
type TableCopy struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
}

// CopyOptions say from where to where the registry is copied.
type CopyOptions struct {
	From, To *DB
	DryRun   bool // only count the rows
}

// copyRows is how many rows one statement inserts. They stay below the packet limit of MySQL servers.
const copyRows = 200

// errDryRun ends the transaction of a dry run.
var errDryRun = NewRefusal("dry run")

// Copy copies all rows of a registry to an empty one with the same schema: all of them in one transaction, or none. The
// rows are those of one instant. It returns the tables with their rows.
func Copy(ctx context.Context, o CopyOptions) (done []TableCopy, err error) {
	if err := o.check(ctx); err != nil {
		return nil, err
	}
	db, err := o.To.address.openForMigration()
	if err != nil {
		return nil, o.To.classify(err)
	}
	defer db.Close()
	target, err := o.To.address.gorm(db)
	if err != nil {
		return nil, err
	}
	err = o.From.Read(ctx, func(from *gorm.DB) error {
		return target.WithContext(ctx).Transaction(func(to *gorm.DB) error {
			done, err = o.copyTables(from, to)
			return err
		})
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return done, err
}

// check refuses registries that cannot be copied.
func (o CopyOptions) check(ctx context.Context) error {
	if o.From.dsn == o.To.dsn {
		return fmt.Errorf("%s: source and target are the same", o.From)
	}
	var last [2]int64
	for i, db := range []*DB{o.From, o.To} {
		if err := db.CheckSchema(ctx); err != nil {
			return fmt.Errorf("%s: %w", db, err)
		}
		steps, err := db.Migrations(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", db, err)
		}
		last[i] = steps[len(steps)-1].Version
	}
	if last[0] != last[1] {
		return fmt.Errorf("%s has schema %d and %s has %d: migrate both with the same wakecall", o.From, last[0], o.To,
			last[1])
	}
	return nil
}

func (o CopyOptions) copyTables(from, to *gorm.DB) (done []TableCopy, err error) {
	tables, err := tablesOf(to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.To, err)
	}
	for _, table := range tables {
		if err := requireEmpty(to, table); err != nil {
			return nil, fmt.Errorf("%s: %w", o.To, err)
		}
	}
	for _, table := range tables {
		n, err := o.copyTable(from, to, table)
		if err != nil {
			return nil, fmt.Errorf("copy table %s: %w", table, err)
		}
		done = append(done, TableCopy{table, n})
	}
	if o.DryRun {
		return done, errDryRun
	}
	return done, continueIDs(to)
}

// tablesOf returns the names of the tables, without those of the migrations.
func tablesOf(db *gorm.DB) ([]string, error) {
	tables, err := db.Migrator().GetTables()
	slices.Sort(tables)
	return slices.DeleteFunc(tables, func(name string) bool {
		return strings.HasPrefix(name, "schema_") || strings.HasPrefix(name, "sqlite_")
	}), err
}

// ErrNotEmpty means that the target of a copy has rows.
var ErrNotEmpty = NewRefusal("the registry to copy to must be empty: create a database, and migrate it with " +
	"`wakecall migrate up --registry-dsn DSN`")

// requireEmpty accepts a table without rows, and the revision of an empty registry, which it deletes.
func requireEmpty(to *gorm.DB, table string) error {
	if table == "revision" {
		err := to.Exec("DELETE FROM revision WHERE value = 1 AND seeded = 0 AND bootstrapped = 0").Error
		if err != nil {
			return err
		}
	}
	var n int64
	if err := to.Table(table).Count(&n).Error; err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%w (table %s has rows)", ErrNotEmpty, table)
	}
	return nil
}

func (o CopyOptions) copyTable(from, to *gorm.DB, table string) (n int64, err error) {
	if o.DryRun {
		err := from.Table(table).Count(&n).Error
		return n, err
	}
	kinds, err := kindsOf(to, table)
	if err != nil {
		return 0, err
	}
	rows, err := from.Table(table).Rows()
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	var batch []map[string]any
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := to.Table(table).Create(batch).Error
		n += int64(len(batch))
		batch = nil
		return err
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
		row := make(map[string]any, len(names))
		for i, name := range names {
			if row[name], err = o.convert(values[i], kinds[name]); err != nil {
				return n, fmt.Errorf("column %s of the row with %s %v: %w", name, names[0], row[names[0]], err)
			}
		}
		if batch = append(batch, row); len(batch) == copyRows {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, errors.Join(rows.Err(), flush())
}

// kindsOf returns the types of a table's columns, as the database names them.
func kindsOf(db *gorm.DB, table string) (map[string]string, error) {
	rows, err := db.Table(table).Where("1 = 0").Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	kinds := map[string]string{}
	for _, c := range columns {
		kinds[c.Name()] = c.DatabaseTypeName()
	}
	return kinds, errors.Join(err, rows.Err())
}

// convert returns a value of the source as the target's driver needs it for a column.
func (o CopyOptions) convert(v any, kind string) (any, error) {
	isText := strings.Contains(kind, "CHAR") || strings.Contains(kind, "TEXT")
	switch value := v.(type) {
	case []byte:
		if isText {
			return o.convertText(string(value))
		}
		return slices.Clone(value), nil
	case string:
		return o.convertText(value)
	case int64:
		if kind == "BOOL" { // PostgreSQL's
			return value != 0, nil
		}
	case time.Time:
		return value.UTC().Truncate(time.Microsecond), nil
	}
	return v, nil
}

func (o CopyOptions) convertText(text string) (any, error) {
	if o.From.address.dialect == migrations.Postgres {
		text = seal.FromPostgres(text)
	}
	if o.To.address.dialect != migrations.Postgres {
		return text, nil
	}
	text = seal.ForPostgres(text)
	if strings.ContainsRune(text, 0) {
		return nil, ErrText
	}
	return text, nil
}

// continueIDs lets the IDs that PostgreSQL gives continue after the highest one. The others do so by themselves.
func continueIDs(to *gorm.DB) error {
	if to.Name() != "postgres" {
		return nil
	}
	var columns []struct{ TableName, ColumnName string }
	err := to.Raw("SELECT table_name, column_name FROM information_schema.columns " +
		"WHERE table_schema = current_schema() AND is_identity = 'YES' AND table_name NOT LIKE 'schema%'").
		Scan(&columns).Error
	for _, c := range columns {
		set := fmt.Sprintf("SELECT setval(pg_get_serial_sequence('%s', '%s'), MAX(%[2]s)) FROM %[1]s", c.TableName,
			c.ColumnName)
		err = errors.Join(err, to.Exec(set).Error)
	}
	if err != nil {
		return fmt.Errorf("continue the IDs: %w", err)
	}
	return nil
}
