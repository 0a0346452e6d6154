package account

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// accessRow stores whether a user may sign in, and when they last did. A user without a row is enabled and has never
// signed in.
type accessRow struct {
	User       string `gorm:"primaryKey"`
	Disabled   bool
	SignedInAt *time.Time
	Address    string
}

func (accessRow) TableName() string { return "user_access" }

// factorRow is a user's second factor.
type factorRow struct {
	User   string `gorm:"primaryKey"`
	Secret seal.Column
}

func (factorRow) TableName() string { return "second_factors" }

// SetDisabled disables or enables a user. Errors: ErrNoUser, ErrLastAdmin, ErrUnavailable.
func (s *Store) SetDisabled(ctx context.Context, actor, name string, disabled bool) error {
	action := "enable"
	if disabled {
		action = "disable"
	}
	return s.change(ctx, actor, action, name, func(tx *gorm.DB, u *userRow, c *registry.Changed) error {
		row := accessRow{User: name}
		if _, err := database.Find(tx, &row, "user", name); err != nil {
			return err
		}
		if row.Disabled == disabled {
			return registry.ErrUnchanged
		}
		if disabled {
			if err := requireOtherAdmin(tx, u); err != nil {
				return err
			}
		}
		before, after := u.User, u.User
		before.Disabled, after.Disabled = row.Disabled, disabled
		c.Before, c.After = before, after
		row.User, row.Disabled = name, disabled
		return upsertAccess(tx, &row, "disabled")
	})
}

// NoteSignIn stores the time and address of a user's last sign-in. It is not audited.
func (s *Store) NoteSignIn(ctx context.Context, name, address string) error {
	at := database.Now()
	err := s.db.Do(ctx, func(tx *gorm.DB) error {
		return upsertAccess(tx, &accessRow{User: name, SignedInAt: &at, Address: address}, "signed_in_at", "address")
	})
	if err != nil {
		return fmt.Errorf("store sign-in of %s: %w", name, err)
	}
	return nil
}

// upsertAccess inserts a row, or updates columns of the existing one.
func upsertAccess(tx *gorm.DB, row *accessRow, columns ...string) error {
	return tx.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "user"}}, DoUpdates: clause.AssignmentColumns(columns),
	}).Create(row).Error
}

func withAccess(tx *gorm.DB) *gorm.DB {
	return tx.Table("users").Select("*").Joins("LEFT JOIN user_access ON user_access.user = name")
}

// SetTOTP gives a user a second factor. Errors: ErrNoUser, seal.ErrKey, ErrUnavailable.
func (s *Store) SetTOTP(ctx context.Context, actor, user, secret string) error {
	sealed, err := s.db.Key.Seal("totp/"+user, secret)
	if err != nil {
		return fmt.Errorf("store second factor of %s: %w", user, err)
	}
	return s.change(ctx, actor, "set second factor", user, func(tx *gorm.DB, u *userRow, c *registry.Changed) error {
		c.After = u.User
		return database.Upsert(tx).Create(&factorRow{user, seal.Column(sealed)}).Error
	})
}

// ClearTOTP removes a user's second factor. Errors: ErrNoUser, ErrUnavailable.
func (s *Store) ClearTOTP(ctx context.Context, actor, user string) error {
	return s.change(ctx, actor, "clear second factor", user, func(tx *gorm.DB, u *userRow, c *registry.Changed) error {
		c.After = u.User
		return tx.Delete(&factorRow{User: user}).Error
	})
}

// TOTPSecret returns the secret of a user's second factor, or "" if there is none. Errors: seal.ErrKey, ErrUnavailable.
func (s *Store) TOTPSecret(ctx context.Context, user string) (string, error) {
	var row factorRow
	found, err := s.db.Find(ctx, &row, "user", user)
	if err != nil || !found {
		return "", err
	}
	secret, err := s.db.Key.Open("totp/"+user, string(row.Secret))
	if err != nil {
		return "", fmt.Errorf("second factor of %s: %w", user, err)
	}
	return secret, nil
}
