package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

type (
	settingRow struct {
		Name      string `gorm:"primaryKey"`
		Value     string
		UpdatedAt time.Time
	}
	noteRow struct {
		Topic            string `gorm:"primaryKey"`
		PauseReason      string
		PausedBy         string
		PausedAt         *time.Time
		PausedUntil      *time.Time
		SecretsChangedAt *time.Time
	}
)

func (settingRow) TableName() string { return "settings" }
func (noteRow) TableName() string    { return "topic_notes" }

// PutSetting stores a value as JSON, with its seal.Texts encrypted. Storing an unchanged value changes nothing. Errors:
// seal.ErrKey, ErrUnavailable.
func (r *Registry) PutSetting(ctx context.Context, actor, name string, value any) error {
	return r.editSetting(ctx, actor, name, func([]byte, error) (any, error) { return value, nil })
}

// EditSetting reads a setting into value (unchanged if there is none), calls edit, and stores the value, all in one
// transaction. Errors: an error of edit, seal.ErrKey, ErrUnavailable.
func (r *Registry) EditSetting(ctx context.Context, actor, name string, value any, edit func() error) error {
	return r.editSetting(ctx, actor, name, func(was []byte, err error) (any, error) {
		if was != nil && err == nil {
			err = json.Unmarshal(was, value)
		}
		if err != nil {
			return nil, fmt.Errorf("read setting %s: %w", name, err)
		}
		return value, edit()
	})
}

// editSetting calls edit with the decrypted JSON of a setting (nil if there is none), or with the error of opening it,
// and stores what edit returns.
func (r *Registry) editSetting(
	ctx context.Context, actor, name string, edit func(was []byte, err error) (any, error),
) error {
	object := "setting/" + name
	return r.Change(ctx, actor, "put", object, func(tx *gorm.DB, c *Changed) error {
		var row settingRow
		found, err := database.Find(tx, &row, "name", name)
		if err != nil {
			return err
		}
		var was []byte
		if found {
			was, err = r.db.Key.OpenJSON(object, []byte(row.Value))
		}
		value, err := edit(was, err)
		if err != nil {
			return err
		}
		open, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("store setting %s: %w", name, err)
		}
		if was != nil && seal.SameJSON(was, open) {
			return ErrUnchanged
		}
		sealed, err := r.db.Key.SealJSON(object, open)
		if err != nil {
			return fmt.Errorf("store setting %s: %w", name, err)
		}
		if c.Before, c.After, err = auditedSetting(was, open); err != nil {
			return fmt.Errorf("store setting %s: %w", name, err)
		}
		return database.Upsert(tx).Create(&settingRow{name, string(sealed), database.Now()}).Error
	})
}

// auditedSetting returns what the audit trail shows of a change: the parts that differ, without secrets. They are
// compared before they are masked, since two secrets may have the same fingerprint.
func auditedSetting(was, is []byte) (before, after any, err error) {
	if was == nil {
		return nil, seal.MaskJSON(is), nil
	}
	b, a, err := onlyChanged(was, is)
	return seal.MaskJSON(b), seal.MaskJSON(a), err
}

// Setting reads a setting of the snapshot. Errors: seal.ErrKey.
func (s *Snapshot) Setting(name string, into any) (found bool, err error) {
	raw, found := s.Settings[name]
	if !found {
		return false, nil
	}
	open, err := s.key.OpenJSON("setting/"+name, raw)
	if err == nil {
		err = json.Unmarshal(open, into)
	}
	if err != nil {
		return true, fmt.Errorf("read setting %s: %w", name, err)
	}
	return true, nil
}

// TopicNote is what the registry stores about a topic in addition to its settings.
type TopicNote struct {
	PauseReason      string    `json:"pause_reason,omitempty"`
	PausedBy         string    `json:"paused_by,omitempty"`
	PausedAt         time.Time `json:"paused_at,omitzero"`
	PausedUntil      time.Time `json:"paused_until,omitzero"` // zero: until it is resumed
	SecretsChangedAt time.Time `json:"secrets_changed_at,omitzero"`
}

func (n *noteRow) note() TopicNote {
	note := TopicNote{PauseReason: n.PauseReason, PausedBy: n.PausedBy}
	if n.PausedAt != nil {
		note.PausedAt = *n.PausedAt
	}
	if n.PausedUntil != nil {
		note.PausedUntil = *n.PausedUntil
	}
	if n.SecretsChangedAt != nil {
		note.SecretsChangedAt = *n.SecretsChangedAt
	}
	return note
}

const maxReason = 500

// ValidReason checks why a topic is paused. Errors: *FieldError.
func ValidReason(reason string) error { return text("reason", reason, maxReason) }

// SetPauseReason stores why a topic is paused, and who says so; an empty reason removes it. Errors: *FieldError,
// ErrNoTopic, ErrUnavailable.
func (r *Registry) SetPauseReason(ctx context.Context, actor, topic, reason string) error {
	if err := ValidReason(reason); err != nil {
		return err
	}
	at := database.Now()
	note := noteRow{Topic: topic, PauseReason: reason, PausedBy: database.Clip(actor, maxActor), PausedAt: &at}
	return r.Change(ctx, actor, "note", "topic/"+topic, func(tx *gorm.DB, c *Changed) error {
		if err := findTopic(tx, &topicRow{}, topic); err != nil {
			return err
		}
		var was noteRow
		if _, err := database.Find(tx, &was, "topic", topic); err != nil {
			return err
		}
		if was.PauseReason == reason {
			return ErrUnchanged
		}
		if reason == "" {
			note.PausedBy, note.PausedAt = was.PausedBy, was.PausedAt
		}
		note.PausedUntil, note.SecretsChangedAt = was.PausedUntil, was.SecretsChangedAt
		c.Before, c.After = was.note(), note.note()
		return database.Upsert(tx).Create(&note).Error
	})
}

// notPaused holds the columns that remove the reason for a pause.
var notPaused = map[string]any{"pause_reason": "", "paused_by": "", "paused_at": nil, "paused_until": nil}

// noteStopped stores who paused topics, or took them offline, and when. SetPauseReason adds why.
func noteStopped(tx *gorm.DB, actor string, topics []string) error {
	at := database.Now()
	notes := make([]noteRow, len(topics))
	for i, topic := range topics {
		notes[i] = noteRow{Topic: topic, PausedBy: database.Clip(actor, maxActor), PausedAt: &at}
	}
	return tx.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "topic"}},
		DoUpdates: clause.AssignmentColumns([]string{"pause_reason", "paused_by", "paused_at", "paused_until"}),
	}).Create(&notes).Error
}

// noteSecrets stores the time at which the topics' secrets changed, and removes the ends of their rotations.
func noteSecrets(tx *gorm.DB, topics ...string) error {
	if err := forgetRotation(tx, topics...); err != nil {
		return err
	}
	at := database.Now()
	notes := make([]noteRow, len(topics))
	for i, topic := range topics {
		notes[i] = noteRow{Topic: topic, SecretsChangedAt: &at}
	}
	return tx.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "topic"}}, DoUpdates: clause.AssignmentColumns([]string{"secrets_changed_at"}),
	}).Create(&notes).Error
}
