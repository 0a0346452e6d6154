package seal

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Column is the value of a column that holds a plain text or a result of Key.Seal.
type Column string

// postgresMark begins sealed texts in a column of PostgreSQL, which stores no NUL character.
const postgresMark = "\x01sealed:"

// ForPostgres returns a text as PostgreSQL stores it.
func ForPostgres(text string) string {
	if rest, ok := strings.CutPrefix(text, sealedMark); ok {
		return postgresMark + rest
	}
	return text
}

// FromPostgres returns the text of a column of any database.
func FromPostgres(stored string) string {
	if rest, ok := strings.CutPrefix(stored, postgresMark); ok {
		return sealedMark + rest
	}
	return stored
}

// GormValue implements gorm.Valuer.
func (c Column) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	text := string(c)
	if db.Name() == "postgres" {
		text = ForPostgres(text)
	}
	return clause.Expr{SQL: "?", Vars: []any{text}}
}

// Scan implements sql.Scanner.
func (c *Column) Scan(stored any) error {
	switch text := stored.(type) {
	case string:
		*c = Column(FromPostgres(text))
	case []byte:
		*c = Column(FromPostgres(string(text)))
	default:
		return fmt.Errorf("%T instead of text", stored)
	}
	return nil
}
