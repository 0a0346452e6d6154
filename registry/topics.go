package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
)

// PutTopic stores a topic, new or changed. Nil Secrets keep the stored ones, empty Secrets remove them. Storing a
// topic as it is changes nothing. Errors: *FieldError, ErrUnavailable.
func (r *Registry) PutTopic(ctx context.Context, actor string, t Topic) (created bool, err error) {
	if err := t.Validate(); err != nil {
		return false, err
	}
	err = r.Change(ctx, actor, "put", "topic/"+t.Name, func(tx *gorm.DB, c *Changed) error {
		t.CreatedAt = database.Now()
		t.UpdatedAt = t.CreatedAt
		var row topicRow
		found, err := database.Find(tx, &row, "name", t.Name)
		if err != nil {
			return err
		}
		created = !found
		// A row that cannot be read is replaced: this repairs it.
		if was, err := row.topic(); found && err == nil {
			c.Before, t.CreatedAt = was, was.CreatedAt
			if t.Secrets == nil {
				t.Secrets = was.Secrets
			}
			if sameTopic(&t, was) {
				return ErrUnchanged
			}
		}
		was, _ := c.Before.(*Topic)
		c.After = &t
		return storeTopic(tx, &t, was)
	})
	return created && err == nil, err
}

// storeTopic stores a topic and brings what is noted of it up to date. was is nil for a new topic.
func storeTopic(tx *gorm.DB, t, was *Topic) error {
	var err error
	switch {
	case len(t.Secrets) > 0 && (was == nil || !slices.Equal(was.Secrets, t.Secrets)):
		err = noteSecrets(tx, t.Name)
	case len(t.Secrets) == 0 && was != nil:
		err = forgetRotation(tx, t.Name)
	}
	if err != nil {
		return err
	}
	if t.State == TopicActive {
		if err := tx.Model(&noteRow{}).Where("topic = ?", t.Name).Updates(notPaused).Error; err != nil {
			return err
		}
	}
	row, err := newTopicRow(t)
	if err != nil {
		return err
	}
	return database.Upsert(tx).Create(row).Error
}

// sameTopic reports whether two topics are stored the same way, apart from the time of the update.
func sameTopic(t, was *Topic) bool {
	next := *t
	next.UpdatedAt = was.UpdatedAt
	a, errA := newTopicRow(&next)
	b, errB := newTopicRow(was)
	return errA == nil && errB == nil && a.Spec == b.Spec
}

// DeleteTopic removes a topic. Errors: ErrNoTopic, ErrUnavailable.
func (r *Registry) DeleteTopic(ctx context.Context, actor, name string) error {
	return r.Change(ctx, actor, "delete", "topic/"+name, func(tx *gorm.DB, c *Changed) error {
		var row topicRow
		if err := findTopic(tx, &row, name); err != nil {
			return err
		}
		if was, err := row.topic(); err == nil {
			c.Before = was
		}
		if err := errors.Join(tx.Where("topic = ?", name).Delete(&noteRow{}).Error, forgetRotation(tx, name)); err != nil {
			return err
		}
		return tx.Delete(&row).Error
	})
}

// TopicDeleted reports whether a topic that is not in the snapshot was deleted: whether its deletion is the last that
// the audit trail has of it. A topic that vanished otherwise is missing because this is another registry, or an old
// backup. Errors: ErrUnavailable.
func (r *Registry) TopicDeleted(ctx context.Context, name string) (bool, error) {
	if !r.Up() {
		return false, ErrUnavailable
	}
	last, err := r.Audit(ctx, AuditFilter{Object: "topic/" + name, Limit: 1})
	return err == nil && len(last) == 1 && last[0].Action == "delete", err
}

func findTopic(tx *gorm.DB, row *topicRow, name string) error {
	return database.MustFind(tx, row, "name", name, fmt.Errorf("%.80q: %w", name, ErrNoTopic))
}
