package alert

import (
	"context"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Deaths counts the jobs of a topic that have ever died.
type Deaths struct {
	Count int64
	Fell  bool // the topic was recreated, or a shard lost its count. Otherwise a lower count is stale
}

type deathsRow struct {
	Topic string `gorm:"primaryKey"`
	Died  int64
}

func (deathsRow) TableName() string { return "told_deaths" }

// ClaimDeaths returns the number of unreported deaths of each topic. Of several hosts, only one gets each death. The
// very first call only stores the counts. Together with an error it returns what it had claimed before the error.
func (s *Store) ClaimDeaths(ctx context.Context, counts map[string]Deaths) (unreported map[string]int64, err error) {
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		var rows []deathsRow
		if err := tx.Find(&rows).Error; err != nil {
			return err
		}
		reported := map[string]int64{}
		for _, row := range rows {
			reported[row.Topic] = row.Died
		}
		if _, begun := reported[""]; !begun {
			return beginDeaths(tx, counts)
		}
		unreported = map[string]int64{}
		for topic, now := range counts {
			claimed, err := claimDeaths(tx, topic, reported[topic], now)
			if err != nil {
				return err
			}
			if claimed > 0 {
				unreported[topic] = claimed
			}
		}
		return nil
	})
	return unreported, err
}

func claimDeaths(tx *gorm.DB, topic string, reported int64, now Deaths) (claimed int64, err error) {
	if now.Count == reported || (now.Count < reported && !now.Fell) {
		return 0, nil
	}
	if err := database.InsertNew(tx).Create(&deathsRow{Topic: topic}).Error; err != nil {
		return 0, err
	}
	res := tx.Model(&deathsRow{}).Where("topic = ? AND died = ?", topic, reported).Update("died", now.Count)
	if res.Error != nil || res.RowsAffected == 0 { // another host claimed them
		return 0, res.Error
	}
	return now.Count - reported, nil
}

func beginDeaths(tx *gorm.DB, counts map[string]Deaths) error {
	rows := []deathsRow{{}} // the row without a topic says that counting has begun
	for topic, n := range counts {
		rows = append(rows, deathsRow{topic, n.Count})
	}
	return database.InsertNew(tx).CreateInBatches(rows, database.BatchRows).Error
}
