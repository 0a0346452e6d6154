package relays

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

const (
	kept = 24 * time.Hour // after the last report
	most = 200            // names
)

// States of a relay.
const (
	OK     = "ok"
	Late   = "late"   // its oldest row has waited for five minutes
	Silent = "silent" // it reports every five seconds, and withdraws its report when it stops
)

const (
	lateAfter   = 5 * time.Minute
	silentAfter = time.Minute
)

// Errors of Save and Forget.
var (
	ErrOthers  = errors.New("the relay is reported with a token of other topics")
	ErrTooMany = errors.New("too many relays report")
)

// Report is what a relay says about its table.
type Report struct {
	OldestMS int64  `json:"oldest_ms"` // age of the oldest row that is not set aside
	Waiting  int64  `json:"waiting"`   // rows that are not set aside
	SetAside int64  `json:"set_aside"`
	Error    string `json:"error,omitzero"` // what hinders it
}

// Relay is the last report of a relay.
type Relay struct {
	Name   string    `gorm:"primaryKey" json:"name"`
	Topics []string  `gorm:"serializer:json" json:"-"` // patterns of the token that reported
	SeenAt time.Time `json:"seen_at"`
	Report Report    `gorm:"serializer:json" json:"-"`
}

// Oldest returns the age of the oldest row that is not set aside.
func (r *Relay) Oldest() time.Duration { return time.Duration(r.Report.OldestMS) * time.Millisecond }

// State returns OK, Late or Silent.
func (r *Relay) State(now time.Time) string {
	switch {
	case now.Sub(r.SeenAt) > silentAfter:
		return Silent
	case r.Oldest() > lateAfter:
		return Late
	}
	return OK
}

// TableName returns the table of the reports.
func (Relay) TableName() string { return "relays" }

// Store keeps reports.
type Store struct{ DB *database.DB }

// Save replaces the report of a relay. mine reports whether the token may touch what was reported with other patterns.
func (s Store) Save(ctx context.Context, r Relay, mine func(topics []string) bool) error {
	r.SeenAt = database.Now()
	return s.DB.Change(ctx, func(tx *gorm.DB) error {
		if err := tx.Where("seen_at < ?", r.SeenAt.Add(-kept)).Delete(&Relay{}).Error; err != nil {
			return err
		}
		found, err := find(tx, r.Name, mine)
		if err != nil {
			return err
		}
		if !found {
			n := int64(0)
			if err := tx.Model(&Relay{}).Count(&n).Error; err != nil {
				return err
			}
			if n >= most {
				return ErrTooMany
			}
		}
		return database.Upsert(tx).Create(&r).Error
	})
}

// find reports whether a relay is reported. Error: ErrOthers.
func find(tx *gorm.DB, name string, mine func(topics []string) bool) (bool, error) {
	var r Relay
	found, err := database.Find(tx, &r, "name", name)
	if found && !mine(r.Topics) {
		return false, ErrOthers
	}
	return found, err
}

// Forget deletes the report of a relay.
func (s Store) Forget(ctx context.Context, name string, mine func(topics []string) bool) error {
	return s.DB.Change(ctx, func(tx *gorm.DB) error {
		if found, err := find(tx, name, mine); err != nil || !found {
			return err
		}
		return tx.Where("name = ?", name).Delete(&Relay{}).Error
	})
}

// List returns the relays that reported within a day, by name.
func (s Store) List(ctx context.Context) ([]Relay, error) {
	return database.List[Relay](ctx, s.DB, func(tx *gorm.DB) *gorm.DB {
		return tx.Where("seen_at > ?", database.Now().Add(-kept)).Order("name")
	})
}
