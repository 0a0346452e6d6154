package database

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

type leadRow struct {
	Role    string `gorm:"primaryKey"`
	Host    string
	UntilAt int64
}

func (leadRow) TableName() string { return "leads" }

// Lead takes or extends the lease of a role for ttl, by the database's clock. Only one host can hold it. Lead reports
// whether this host does.
func (db *DB) Lead(ctx context.Context, role, holder string, ttl time.Duration) (leads bool, err error) {
	err = db.Do(ctx, func(tx *gorm.DB) error {
		if err := InsertNew(tx).Create(&leadRow{Role: role}).Error; err != nil {
			return err
		}
		clock := db.Clock()
		res := tx.Model(&leadRow{}).Where("role = ? AND (host = ? OR until_at < "+clock+")", role, holder).
			Updates(map[string]any{"host": holder,
				"until_at": gorm.Expr(fmt.Sprintf("%s + %d", clock, ttl.Milliseconds()))})
		if leads = res.RowsAffected > 0; leads || res.Error != nil {
			return res.Error
		}
		// MySQL only counts rows that changed: extending twice within a millisecond changes none.
		var row leadRow
		found, err := Find(tx, &row, "role", role)
		leads = found && row.Host == holder
		return err
	})
	return leads, err
}
