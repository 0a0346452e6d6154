package registry

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/database"
)

// Sample is a piece of history: what a series was at a time. A later one for the same time replaces it.
type Sample struct {
	Series string // a topic, or what its writer calls it
	Tier   string // 10s, 1m, 10m or 1h
	At     time.Time
	Data   []byte // JSON
}

type (
	sampleRow struct {
		Series string `gorm:"primaryKey"`
		Tier   string `gorm:"primaryKey"`
		At     int64  `gorm:"primaryKey;autoIncrement:false"`
		Data   string
	}
	leadRow struct {
		Role    string `gorm:"primaryKey"`
		Host    string
		UntilAt int64
	}
)

func (sampleRow) TableName() string { return "samples" }
func (leadRow) TableName() string   { return "leads" }

// sampleRows is how many samples go in one statement: SQLite takes 32,766 values.
const sampleRows = 1000

// PutSamples stores samples.
func (r *Registry) PutSamples(ctx context.Context, samples []Sample) error {
	if len(samples) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	rows := make([]sampleRow, len(samples))
	for i, s := range samples {
		rows[i] = sampleRow{s.Series, s.Tier, s.At.Unix(), string(s.Data)}
	}
	return r.db.Classify(r.db.Gorm(ctx).Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(rows, sampleRows).Error)
}

// Samples lists those of a series from a time to another (not included), oldest first.
func (r *Registry) Samples(ctx context.Context, series, tier string, from, to time.Time) ([]Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	var rows []sampleRow
	err := r.db.Gorm(ctx).Where("series = ? AND tier = ? AND at >= ? AND at < ?", series, tier, from.Unix(), to.Unix()).Order("at").Find(&rows).Error
	if err := r.db.Classify(err); err != nil {
		return nil, err
	}
	list := make([]Sample, len(rows))
	for i, row := range rows {
		list[i] = Sample{row.Series, row.Tier, time.Unix(row.At, 0).UTC(), []byte(row.Data)}
	}
	return list, nil
}

// sampleLife is how long the samples of each tier are kept: somewhat longer than the chart that shows them.
var sampleLife = map[string]time.Duration{"10s": time.Hour, "1m": 6 * time.Hour, "10m": 2 * 24 * time.Hour, "1h": 15 * 24 * time.Hour}

// PruneSamples removes what is past its life.
func (r *Registry) PruneSamples(ctx context.Context, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	for tier, life := range sampleLife {
		if err := r.db.Gorm(ctx).Where("tier = ? AND at < ?", tier, at.Add(-life).Unix()).Delete(&sampleRow{}).Error; err != nil {
			return r.db.Classify(err)
		}
	}
	return nil
}

// Lead takes or renews the lease of a role that one host has at a time, for ttl by the database's clock, and says whether this host has it.
func (r *Registry) Lead(ctx context.Context, role, host string, ttl time.Duration) (leads bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	clock := r.db.Clock()
	db := r.db.Gorm(ctx)
	if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&leadRow{Role: role}).Error; err != nil {
		return false, r.db.Classify(err)
	}
	res := db.Model(&leadRow{}).Where("role = ? AND (host = ? OR until_at < "+clock+")", role, host).
		Updates(map[string]any{"host": host, "until_at": gorm.Expr(fmt.Sprintf("%s + %d", clock, ttl.Milliseconds()))})
	if res.Error != nil {
		return false, r.db.Classify(res.Error)
	}
	if res.RowsAffected > 0 {
		return true, nil
	}
	// MySQL counts only rows that changed: renewing twice within a millisecond changes none.
	var row leadRow
	found, err := database.Find(db, &row, "role", role)
	return found && row.Host == host, r.db.Classify(err)
}
