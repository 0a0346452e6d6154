package history

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Sample holds the values of a series at a time. A later one for the same time replaces it.
type Sample struct {
	Series string // AllTopics, a topic, or the result of ShardSeries
	Tier   string
	At     time.Time
	Data   []byte // JSON of a record
}

// Store stores samples in the registry's database.
type Store struct{ db *database.DB }

// NewStore returns the store in a database.
func NewStore(db *database.DB) *Store { return &Store{db} }

type sampleRow struct {
	Series string `gorm:"primaryKey"`
	Tier   string `gorm:"primaryKey"`
	At     int64  `gorm:"primaryKey;autoIncrement:false"`
	Data   string
}

func (sampleRow) TableName() string { return "samples" }

// PutSamples stores samples.
func (s *Store) PutSamples(ctx context.Context, samples []Sample) error {
	if len(samples) == 0 {
		return nil
	}
	rows := make([]sampleRow, len(samples))
	for i, s := range samples {
		rows[i] = sampleRow{s.Series, s.Tier, s.At.Unix(), string(s.Data)}
	}
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		return database.Upsert(tx).CreateInBatches(rows, database.BatchRows).Error
	})
}

// Samples lists the samples of a series from one time up to another (exclusive), oldest first.
func (s *Store) Samples(ctx context.Context, series, tier string, from, to time.Time) ([]Sample, error) {
	within := func(tx *gorm.DB) *gorm.DB {
		return tx.Where("series = ? AND tier = ? AND at >= ? AND at < ?", series, tier, from.Unix(), to.Unix()).Order(
			"at")
	}
	rows, err := database.List[sampleRow](ctx, s.db, within)
	samples := make([]Sample, len(rows))
	for i, r := range rows {
		samples[i] = Sample{r.Series, r.Tier, time.Unix(r.At, 0).UTC(), []byte(r.Data)}
	}
	return samples, err
}

// PruneSamples deletes the samples that charts no longer show.
func (s *Store) PruneSamples(ctx context.Context, now time.Time) error {
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		for _, t := range tiers {
			if err := tx.Where("tier = ? AND at < ?", t.Name, now.Add(-t.Keep).Unix()).Delete(
				&sampleRow{}).Error; err != nil {
				return err
			}
		}
		return nil
	})
}

// Lead tries to take or extend the lease of a role, and reports whether the host holds it.
func (s *Store) Lead(ctx context.Context, role, host string, ttl time.Duration) (bool, error) {
	return s.db.Lead(ctx, role, host, ttl)
}
