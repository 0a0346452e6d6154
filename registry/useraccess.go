package registry

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/database"
)

// accessRow is what a user may not, and did last. A user who has none is enabled and has never signed in.
type accessRow struct {
	User       string `gorm:"primaryKey"`
	Disabled   bool
	SignedInAt *time.Time
	Address    string
}

func (accessRow) TableName() string { return "user_access" }

// SetDisabled keeps a user out of the web admin, or lets one in again. Errors: ErrNoUser, ErrLastAdmin, ErrUnavailable.
func (r *Registry) SetDisabled(ctx context.Context, actor, name string, disabled bool) error {
	action := "enable"
	if disabled {
		action = "disable"
	}
	return r.changeUser(ctx, actor, action, name, func(tx *gorm.DB, u *userRow, c *changed) error {
		row := accessRow{User: name}
		if _, err := database.Find(tx, &row, "user", name); err != nil {
			return err
		}
		if row.Disabled == disabled {
			return errUnchanged
		}
		if disabled {
			if err := anotherAdmin(tx, u); err != nil {
				return err
			}
		}
		before, after := u.user(), u.user()
		before.Disabled, after.Disabled = row.Disabled, disabled
		c.before, c.after = before, after
		row.User, row.Disabled = name, disabled
		return tx.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "user"}}, DoUpdates: clause.AssignmentColumns([]string{"disabled"})}).Create(&row).Error
	})
}

// NoteSignIn remembers when and from where a user signed in last. It is nobody's change, and not audited.
func (r *Registry) NoteSignIn(ctx context.Context, name, address string) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	at := database.Now()
	row := accessRow{User: name, SignedInAt: &at, Address: address}
	update := clause.OnConflict{Columns: []clause.Column{{Name: "user"}}, DoUpdates: clause.AssignmentColumns([]string{"signed_in_at", "address"})}
	if err := r.db.Classify(r.db.Gorm(ctx).Clauses(update).Create(&row).Error); err != nil {
		return fmt.Errorf("note the sign-in of %s: %w", name, err)
	}
	return nil
}

// accessOf is what is kept of users beside their passwords, by name.
func accessOf(tx *gorm.DB) (map[string]accessRow, error) {
	var rows []accessRow
	if err := tx.Find(&rows).Error; err != nil {
		return nil, err
	}
	all := make(map[string]accessRow, len(rows))
	for _, row := range rows {
		all[row.User] = row
	}
	return all, nil
}

func (row accessRow) fill(u *User) {
	u.Disabled, u.Address = row.Disabled, row.Address
	if row.SignedInAt != nil {
		u.SignedInAt = row.SignedInAt.UTC()
	}
}
