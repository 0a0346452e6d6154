package ddl

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

// The databases.
const (
	MySQL    = "mysql"
	Postgres = "postgres"
	SQLite   = "sqlite"
)

// Table is the table's default name.
const Table = "wakecall_outbox"

// Databases lists the databases.
var Databases = []string{MySQL, Postgres, SQLite}

//go:embed *.sql
var files embed.FS

// a schema's name may precede the table's
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,47}\.)?[A-Za-z_][A-Za-z0-9_]{0,47}$`)

// CheckTable returns an error unless name is valid in every database without quotes. It may be SCHEMA.TABLE.
func CheckTable(name string) error {
	if !tableName.MatchString(name) {
		return fmt.Errorf("table %q must be TABLE or SCHEMA.TABLE, of at most 48 letters, digits and _ each", name)
	}
	return nil
}

// Of returns the statements that create the table and its indexes, unless they exist.
func Of(database, table string) (string, error) {
	text, err := files.ReadFile(database + ".sql")
	if err != nil {
		return "", fmt.Errorf("database %q must be one of %s", database, strings.Join(Databases, ", "))
	}
	if err := CheckTable(table); err != nil {
		return "", err
	}
	index := strings.NewReplacer(Table+"_", table[strings.IndexByte(table, '.')+1:]+"_", Table, table)
	return index.Replace(string(text)), nil
}

// Statements splits what Of returns, for drivers that run one statement at a time.
func Statements(script string) (statements []string) {
	for s := range strings.SplitSeq(script, ";\n") {
		if strings.TrimSpace(s) != "" {
			statements = append(statements, s)
		}
	}
	return statements
}
