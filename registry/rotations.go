package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// rotationRow says until when the older secret of a topic signs beside the newer.
type rotationRow struct {
	Topic string `gorm:"primaryKey"`
	Until time.Time
}

func (rotationRow) TableName() string { return "rotations" }

// MaxOverlap is the longest that two secrets may sign side by side.
const MaxOverlap = 90 * 24 * time.Hour

// SetRotation says until when the older of a topic's two secrets signs; then EndRotations drops it. Errors: *FieldError, ErrNoTopic, ErrUnavailable.
func (r *Registry) SetRotation(ctx context.Context, actor, topic string, until time.Time) error {
	if until.After(now().Add(MaxOverlap)) {
		return outOfRange("overlap", "is longer than %d days", int(MaxOverlap.Hours()/24))
	}
	return r.change(ctx, actor, "rotate", "topic/"+topic, func(tx *gorm.DB, c *changed) error {
		if found, err := take(tx, &topicRow{}, "name", topic); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("%.80q: %w", topic, ErrNoTopic)
		}
		c.after = map[string]time.Time{"old_secret_until": until.UTC()}
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&rotationRow{topic, until.UTC()}).Error
	})
}

// Rotation is until when the older secret of a topic signs; zero when nothing was said.
func (r *Registry) Rotation(ctx context.Context, topic string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var row rotationRow
	_, err := take(r.db.WithContext(ctx), &row, "topic", topic)
	return row.Until.UTC(), r.wrap(err)
}

// EndRotations drops the older secrets whose time is over, in the name of "rotation". Several hosts may do so at once.
func (r *Registry) EndRotations(ctx context.Context, at time.Time) error {
	var over []rotationRow
	qctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if err := r.wrap(r.db.WithContext(qctx).Where("until <= ?", at.UTC()).Find(&over).Error); err != nil {
		return err
	}
	var errs []error
	for _, o := range over {
		errs = append(errs, r.endRotation(ctx, o))
	}
	return errors.Join(errs...)
}

func (r *Registry) endRotation(ctx context.Context, o rotationRow) error {
	r.Refresh(ctx)
	if t := r.Snapshot().Topics[o.Topic]; t != nil && len(t.Secrets) > 1 {
		next := *t
		next.Secrets = t.Secrets[:1]
		if _, err := r.PutTopic(ctx, "rotation", next); err != nil {
			return fmt.Errorf("drop the old secret of %s: %w", o.Topic, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	// Not one that was prolonged meanwhile.
	err := r.db.WithContext(ctx).Where("topic = ? AND until = ?", o.Topic, o.Until).Delete(&rotationRow{}).Error
	return r.wrap(err)
}
