package alert

import (
	"context"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
	"github.com/wakecall/wakecall/registry"
)

// Handling says who looks after an alert. Acknowledged, it is not told again until it gets worse or is over. Muted, it
// is not told at all until then, also when it ends and begins anew.
type Handling struct {
	Alert uint64     `json:"-"` // of which it was said
	By    string     `json:"by"`
	Why   string     `json:"why"`
	At    time.Time  `json:"at"`
	Until *time.Time `json:"until,omitempty"` // of a mute; nil: it is acknowledged
}

// Acknowledged reports whether somebody looks after the alert.
func (h Handling) Acknowledged() bool { return h.By != "" && h.Until == nil }

// Muted reports whether nobody wants to hear of it now.
func (h Handling) Muted(now time.Time) bool { return h.Until != nil && now.Before(*h.Until) }

type handledRow struct {
	AlertKey string   `gorm:"primaryKey"`
	Handling Handling `gorm:"embedded;embeddedPrefix:handled_"`
}

func (handledRow) TableName() string { return "alert_handled" }

// ErrNoAlert says that the alert is over.
var ErrNoAlert = errors.New("the alert is over")

const maxWhy = 500

// Handle stores who looks after an open alert; with a zero until it is acknowledged, else muted. An empty reason ends
// that. Errors: ErrNoAlert.
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
			Alert: open.ID, By: database.Clip(strings.TrimPrefix(actor, "user/"), maxHost), Why: database.Clip(why, maxWhy),
			At: database.Now(),
		}
		if !until.IsZero() {
			end := until.UTC().Truncate(time.Microsecond)
			said.Until = &end
		}
		c.After = said
		return database.Upsert(tx).Create(&handledRow{key, said}).Error
	})
}
