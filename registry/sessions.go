package registry

import (
	"context"
	"time"
)

type sessionRow struct {
	Token     string `gorm:"primaryKey"`
	Data      []byte
	ExpiresAt time.Time
}

func (sessionRow) TableName() string { return "sessions" }

// Sessions keeps the sessions of the web admin, by the hashes of their tokens.
type Sessions struct{ r *Registry }

// Sessions is the registry's store of sessions.
func (r *Registry) Sessions() *Sessions { return &Sessions{r} }

// Find reads a session that has not expired.
func (s *Sessions) Find(ctx context.Context, token string) (data []byte, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var row sessionRow
	found, err = take(s.r.db.WithContext(ctx), &row, "token", token)
	if err := s.r.wrap(err); err != nil || !found || !row.ExpiresAt.After(time.Now()) {
		return nil, false, err
	}
	return row.Data, true, nil
}

// Create stores a new session until expiry and deletes those that have expired.
func (s *Sessions) Create(ctx context.Context, token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	db := s.r.db.WithContext(ctx)
	if err := db.Where("expires_at < ?", now()).Delete(&sessionRow{}).Error; err != nil {
		return s.r.wrap(err)
	}
	return s.r.wrap(db.Create(&sessionRow{token, data, expiry.UTC()}).Error)
}

// Update changes a session that is stored, and says whether it is: one that was ended meanwhile stays ended.
func (s *Sessions) Update(ctx context.Context, token string, data []byte, expiry time.Time) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	db := s.r.db.WithContext(ctx)
	res := db.Model(&sessionRow{}).Where("token = ?", token).Updates(map[string]any{"data": data, "expires_at": expiry.UTC()})
	if res.Error != nil || res.RowsAffected > 0 {
		return res.Error == nil, s.r.wrap(res.Error)
	}
	found, err = take(db, &sessionRow{}, "token", token) // MySQL counts only rows that changed
	return found, s.r.wrap(err)
}

// Delete ends a session and says whether it was there.
func (s *Sessions) Delete(ctx context.Context, token string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	res := s.r.db.WithContext(ctx).Where("token = ?", token).Delete(&sessionRow{})
	return res.RowsAffected > 0, s.r.wrap(res.Error)
}

// All lists the sessions that have not expired, by token.
func (s *Sessions) All(ctx context.Context) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var rows []sessionRow
	if err := s.r.wrap(s.r.db.WithContext(ctx).Where("expires_at > ?", now()).Find(&rows).Error); err != nil {
		return nil, err
	}
	all := make(map[string][]byte, len(rows))
	for _, row := range rows {
		all[row.Token] = row.Data
	}
	return all, nil
}
