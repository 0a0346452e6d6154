package alert

import (
	"context"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Deaths is the number of a topic's jobs that have ever died.
type Deaths struct {
	Count int64
	Fell  bool // the topic was recreated, or a shard lost its count. Otherwise a lower count is stale
}

type deathsRow struct {
	Topic string `gorm:"primaryKey"`
	Died  int64
}

func (deathsRow) TableName() string { return "alert_deaths" }

// ClaimDeaths returns the number of unreported deaths of each topic, and stores the counts as reported. The very first
// call only stores them.
func (s *Store) ClaimDeaths(ctx context.Context, counts map[string]Deaths) (map[string]int64, error) {
	unreported := map[string]int64{}
	err := s.db.Change(ctx, func(tx *gorm.DB) error {
		clear(unreported)
		var stored []deathsRow
		if err := tx.Find(&stored).Error; err != nil {
			return err
		}
		reported := map[string]int64{}
		for _, row := range stored {
			reported[row.Topic] = row.Died
		}
		_, begun := reported[""]
		rows := []deathsRow{{}} // the row without a topic says that counting has begun
		for topic, now := range counts {
			was := reported[topic]
			if begun && (now.Count == was || now.Count < was && !now.Fell) {
				continue
			}
			rows = append(rows, deathsRow{topic, now.Count})
			if begun && now.Count > was {
				unreported[topic] = now.Count - was
			}
		}
		return database.Upsert(tx).CreateInBatches(rows, database.BatchRows).Error
	})
	if err != nil {
		return nil, err
	}
	return unreported, nil
}
