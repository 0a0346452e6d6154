package registry

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Expired reports whether a token has expired, by the clock of this host.
func (t *Token) Expired(now time.Time) bool { return t.ExpiresAt != nil && !now.Before(*t.ExpiresAt) }

// longestExpiry is the maximum validity of a token.
const longestExpiry = 100 * 365 * 24 * time.Hour

// ParseExpiry parses when a token expires: a duration from now (90d, 12h) or an RFC 3339 instant. It returns nil, which
// means never, if the text is empty. Errors: *FieldError.
func ParseExpiry(text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := ParseInstant(text)
	if err != nil {
		d, ok := parseDays(text)
		if !ok {
			return nil, Malformed("expires_at", "field.expiry", text)
		}
		at = now.Add(d)
	}
	at = at.UTC().Truncate(time.Second)
	return &at, validExpiry(&at, now)
}

// parseDays parses a duration or a number of days. To avoid an overflow, it limits the days to just above
// longestExpiry.
func parseDays(text string) (time.Duration, bool) {
	number, ok := strings.CutSuffix(text, "d")
	if !ok {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	days, err := strconv.ParseInt(number, 10, 32)
	const most = int64(longestExpiry/(24*time.Hour)) + 1
	return time.Duration(min(max(days, -most), most)) * 24 * time.Hour, err == nil
}

func validExpiry(at *time.Time, now time.Time) error {
	switch {
	case at == nil:
		return nil
	case !at.After(now):
		return OutOfRange("expires_at", "field.past", at.UTC().Format(time.RFC3339))
	case at.After(now.Add(longestExpiry)):
		return OutOfRange("expires_at", "field.expiry_far")
	}
	return nil
}

// NoteTokenUses stores when tokens were used, to the minute and at most once a minute, however many hosts call it. It
// creates neither a revision nor an audit entry, so processes need not read anything again.
func (r *Registry) NoteTokenUses(ctx context.Context, ids []uint64, at time.Time) error {
	at = at.UTC().Truncate(time.Minute)
	return r.db.Change(ctx, func(tx *gorm.DB) error {
		for some := range slices.Chunk(ids, database.BatchRows) {
			unused := tx.Model(&tokenRow{}).Where("id IN ? AND (last_used_at IS NULL OR last_used_at < ?)", some, at)
			err := unused.UpdateColumn("last_used_at", at).Error
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TokenUses returns when each token was last used, by its ID, without tokens that were never used. Errors:
// ErrUnavailable.
func (r *Registry) TokenUses(ctx context.Context) (map[uint64]time.Time, error) {
	used := func(tx *gorm.DB) *gorm.DB { return tx.Where("last_used_at IS NOT NULL") }
	rows, err := database.List[tokenRow](ctx, r.db, used)
	if err != nil {
		return nil, err
	}
	uses := make(map[uint64]time.Time, len(rows))
	for _, row := range rows {
		uses[row.ID] = *row.LastUsedAt
	}
	return uses, nil
}
