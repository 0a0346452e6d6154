package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// rotationRow stores until when a topic's older secret signs in addition to its newer one.
type rotationRow struct {
	Topic string `gorm:"primaryKey"`
	Until time.Time
}

func (rotationRow) TableName() string { return "rotations" }

// MaxOverlap is the maximum time for which both secrets may sign.
const MaxOverlap = 90 * 24 * time.Hour

// rotated is a rotation in the audit trail.
type rotated struct {
	Secrets []string   `json:"secrets"`
	Until   *time.Time `json:"old_secret_until,omitempty"`
}

func newRotated(t *Topic, until time.Time) rotated {
	v := rotated{Secrets: fingerprints(t.Secrets)}
	if !until.IsZero() {
		v.Until = &until
	}
	return v
}

// RotateSecret adds a new secret before the current one. Both sign until the given time, when EndRotations drops the
// older one. A topic without a secret only gets the new one. Errors: *FieldError, ErrNoTopic, ErrUnavailable.
func (r *Registry) RotateSecret(ctx context.Context, actor, topic, secret string, until time.Time) error {
	if err := validOverlap(until); err != nil {
		return err
	}
	return r.changeSecrets(ctx, actor, "rotate", topic, func(tx *gorm.DB, t *Topic, c *Changed) error {
		next := *t
		next.Secrets = append([]string{secret}, t.Secrets[:min(1, len(t.Secrets))]...)
		if err := next.Validate(); err != nil {
			return err
		}
		if len(next.Secrets) == 1 {
			until = time.Time{}
		}
		c.After = newRotated(&next, until)
		if err := r.storeSecrets(tx, &next); err != nil || until.IsZero() {
			return err
		}
		return tx.Create(&rotationRow{topic, until}).Error
	})
}

// SetRotation sets until when the older of a topic's two secrets signs. Errors: *FieldError, ErrNoTopic,
// ErrUnavailable.
func (r *Registry) SetRotation(ctx context.Context, actor, topic string, until time.Time) error {
	if err := validOverlap(until); err != nil {
		return err
	}
	return r.changeSecrets(ctx, actor, "set overlap", topic, func(tx *gorm.DB, t *Topic, c *Changed) error {
		if len(t.Secrets) < 2 {
			return Malformed("overlap", "field.one_secret", topic)
		}
		c.After = newRotated(t, until.UTC())
		return database.Upsert(tx).Create(&rotationRow{topic, until}).Error
	})
}

func validOverlap(until time.Time) error {
	if until.After(database.Now().Add(MaxOverlap)) {
		return OutOfRange("overlap", "field.overlap", int(MaxOverlap.Hours()/24))
	}
	return nil
}

// changeSecrets calls Change to alter the secrets of an existing topic.
func (r *Registry) changeSecrets(
	ctx context.Context, actor, action, topic string, do func(*gorm.DB, *Topic, *Changed) error,
) error {
	return r.Change(ctx, actor, action, "topic/"+topic, func(tx *gorm.DB, c *Changed) error {
		var row topicRow
		var overlap rotationRow
		if err := findTopic(tx, &row, topic); err != nil {
			return err
		}
		if _, err := database.Find(tx, &overlap, "topic", topic); err != nil {
			return err
		}
		t, err := row.topic(r.db.Key)
		if err != nil {
			return err
		}
		c.Before = newRotated(t, overlap.Until)
		return do(tx, t, c)
	})
}

func (r *Registry) storeSecrets(tx *gorm.DB, t *Topic) error {
	t.UpdatedAt = database.Now()
	row, err := newTopicRow(r.db.Key, t)
	if err != nil {
		return err
	}
	if err := noteSecrets(tx, t.Name); err != nil {
		return err
	}
	return database.Upsert(tx).Create(row).Error
}

// forgetRotation removes the pending ends of rotations. Every change of a topic's secrets calls it, because an end set
// for the old secrets no longer applies.
func forgetRotation(tx *gorm.DB, topics ...string) error {
	return tx.Where("topic IN ?", topics).Delete(&rotationRow{}).Error
}

// Rotation returns until when the older secret of a topic signs; zero if the rotation has no end.
func (r *Registry) Rotation(ctx context.Context, topic string) (time.Time, error) {
	var row rotationRow
	_, err := r.db.Find(ctx, &row, "topic", topic)
	return row.Until, err
}

// EndRotations drops the older secrets whose time has passed, as the actor "rotation". If several hosts call it at
// once, only one drops them.
func (r *Registry) EndRotations(ctx context.Context, at time.Time) error {
	over, err := database.List[rotationRow](ctx, r.db, func(tx *gorm.DB) *gorm.DB { return tx.Where("until <= ?", at) })
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range over {
		err := r.endRotation(ctx, o.Topic, at)
		if err != nil {
			errs = append(errs, fmt.Errorf("drop old secret of %s: %w", o.Topic, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Registry) endRotation(ctx context.Context, topic string, at time.Time) error {
	return r.changeSecrets(ctx, "rotation", "drop old secret", topic, func(tx *gorm.DB, t *Topic, c *Changed) error {
		var row rotationRow
		if found, err := database.Find(tx, &row, "topic", topic); err != nil {
			return err
		} else if !found || row.Until.After(at) {
			return ErrUnchanged // dropped by another host, or the rotation was extended
		}
		t.Secrets = t.Secrets[:min(1, len(t.Secrets))]
		c.After = newRotated(t, time.Time{})
		return r.storeSecrets(tx, t)
	})
}
