package account

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

type sessionRow struct {
	Token     string `gorm:"primaryKey"`
	Data      []byte
	ExpiresAt time.Time
}

func (sessionRow) TableName() string { return "sessions" }

// Sessions stores the sessions of the web admin by their tokens, which are hashes.
type Sessions struct{ db *database.DB }

// NewSessions returns the store of sessions in a database.
func NewSessions(db *database.DB) *Sessions { return &Sessions{db} }

// Find returns a session that has not expired.
func (s *Sessions) Find(ctx context.Context, token string) (data []byte, found bool, err error) {
	var row sessionRow
	found, err = s.db.Find(ctx, &row, "token", token)
	if err != nil || !found || !row.ExpiresAt.After(time.Now()) {
		return nil, false, err
	}
	return row.Data, true, nil
}

// Create stores a new session until expiry and deletes expired ones.
func (s *Sessions) Create(ctx context.Context, token string, data []byte, expiry time.Time) error {
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		if err := tx.Where("expires_at < ?", database.Now()).Delete(&sessionRow{}).Error; err != nil {
			return err
		}
		return tx.Create(&sessionRow{token, data, expiry}).Error
	})
}

// Update changes a stored session. It does not revive a session that has ended meanwhile.
func (s *Sessions) Update(ctx context.Context, token string, data []byte, expiry time.Time) error {
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		return tx.Model(&sessionRow{}).Where("token = ?", token).
			Updates(map[string]any{"data": data, "expires_at": expiry}).Error
	})
}

// Delete ends a session and reports whether it existed.
func (s *Sessions) Delete(ctx context.Context, token string) (found bool, err error) {
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		res := tx.Where("token = ?", token).Delete(&sessionRow{})
		found = res.RowsAffected > 0
		return res.Error
	})
	return found, err
}

// All returns the sessions that have not expired, by token.
func (s *Sessions) All(ctx context.Context) (map[string][]byte, error) {
	open := func(tx *gorm.DB) *gorm.DB { return tx.Where("expires_at > ?", database.Now()) }
	rows, err := database.List[sessionRow](ctx, s.db, open)
	all := make(map[string][]byte, len(rows))
	for _, row := range rows {
		all[row.Token] = row.Data
	}
	return all, err
}
