package alert

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// AlertsBetween returns the alerts that were open at some time between two, newest first: those of a topic or of a
// shard, or all if both are empty.
func (s *Store) AlertsBetween(
	ctx context.Context, topic, shard string, from, to time.Time, most int,
) ([]Alert, error) {
	rows, err := database.List[alertRow](ctx, s.db, func(tx *gorm.DB) *gorm.DB {
		q := tx.Where("began_at < ? AND (open_key IS NOT NULL OR ended_at > ?)", to.UTC(), from.UTC())
		if topic != "" {
			q = q.Where("topic = ?", topic)
		}
		if shard != "" {
			q = q.Where("shard = ?", shard)
		}
		return q.Order("began_at DESC, id DESC").Limit(most)
	})
	list := make([]Alert, len(rows))
	for i, row := range rows {
		list[i] = row.Alert
	}
	return list, err
}
