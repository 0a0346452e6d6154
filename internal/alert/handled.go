package alert

import (
	"context"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// Handling is an acknowledgement or mute of an alert. An acknowledged alert is not reported again until it gets worse
// or ends. A muted one is not reported at all until the given time, even if it resolves and reopens.
type Handling struct {
	Alert uint64     `json:"-"` // the alert that this applies to
	By    string     `json:"by"`
	Why   string     `json:"why"`
	At    time.Time  `json:"at"`
	Until *time.Time `json:"until,omitempty"` // the end of a mute; nil: acknowledged
}

// Acknowledged reports whether the alert is acknowledged.
func (h Handling) Acknowledged() bool { return h.By != "" && h.Until == nil }

// Muted reports whether the alert is muted now.
func (h Handling) Muted(now time.Time) bool { return h.Until != nil && now.Before(*h.Until) }

type handledRow struct {
	AlertKey string   `gorm:"primaryKey"`
	Handling Handling `gorm:"embedded;embeddedPrefix:handled_"`
}

func (handledRow) TableName() string { return "alert_handled" }

// ErrNoAlert is returned if the alert has ended.
var ErrNoAlert = errors.New("the alert has ended")

const maxWhy = 500

// Handle acknowledges an open alert if until is zero, and mutes it otherwise. An empty reason removes the
// acknowledgement or mute. Errors: ErrNoAlert.
func Handle(ctx context.Context, r *registry.Registry, actor, key, why string, until time.Time) error {
	action := "acknowledge"
	switch {
	case why == "":
		action = "unmute"
	case !until.IsZero():
		action = "mute"
	}
	return r.Change(ctx, actor, action, "alert/"+key, func(tx *gorm.DB, c *registry.Changed) error {
		if why == "" {
			return tx.Where("alert_key = ?", key).Delete(&handledRow{}).Error
		}
		var open alertRow
		if err := database.MustFind(tx, &open, "open_key", key, ErrNoAlert); err != nil {
			return err
		}
		said := Handling{
			Alert: open.ID, By: database.Clip(strings.TrimPrefix(actor, "user/"), maxHost),
			Why: database.Clip(why, maxWhy),
			At:  database.Now(),
		}
		if !until.IsZero() {
			end := until.UTC().Truncate(time.Microsecond)
			said.Until = &end
		}
		c.After = said
		return database.Upsert(tx).Create(&handledRow{key, said}).Error
	})
}
