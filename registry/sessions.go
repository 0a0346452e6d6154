package registry

import (
	"context"
	"time"

	"gorm.io/gorm/clause"
)

type sessionRow struct {
	Token     string `gorm:"primaryKey"`
	Data      []byte
	ExpiresAt time.Time
}

func (sessionRow) TableName() string { return "sessions" }

// Sessions keeps the sessions of the web admin: a store for github.com/alexedwards/scs. Its tokens are hashes already.
type Sessions struct{ r *Registry }

// Sessions is the registry's store of sessions.
func (r *Registry) Sessions() *Sessions { return &Sessions{r} }

// FindCtx reads a session.
func (s *Sessions) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
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

// CommitCtx stores a session until expiry, even one that was ended meanwhile: use Create and Update instead.
func (s *Sessions) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	db := s.r.db.WithContext(ctx)
	if err := db.Where("expires_at < ?", now()).Delete(&sessionRow{}).Error; err != nil {
		return s.r.wrap(err)
	}
	return s.r.wrap(db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&sessionRow{token, data, expiry.UTC()}).Error)
}

// DeleteCtx ends a session.
func (s *Sessions) DeleteCtx(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	return s.r.wrap(s.r.db.WithContext(ctx).Where("token = ?", token).Delete(&sessionRow{}).Error)
}

// AllCtx lists the sessions that have not expired, by token.
func (s *Sessions) AllCtx(ctx context.Context) (map[string][]byte, error) {
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

// Find is FindCtx, without a context: scs wants these four to exist and calls the others.
func (s *Sessions) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit is CommitCtx.
func (s *Sessions) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

// Delete is DeleteCtx.
func (s *Sessions) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

// All is AllCtx.
func (s *Sessions) All() (map[string][]byte, error) { return s.AllCtx(context.Background()) }
