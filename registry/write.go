package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// changed is what a change tells the audit trail.
type changed struct {
	object        string
	before, after any
}

// change makes a change, its audit entry and the next revision in one transaction, and shows it in the snapshot before it returns.
func (r *Registry) change(ctx context.Context, actor, action, object string, do func(tx *gorm.DB, c *changed) error) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if err := r.checkSchema(ctx); err != nil {
		return err
	}
	err := r.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// The revision's row is taken first: changes wait for each other here, and none deadlocks.
		if err := tx.Model(&revisionRow{}).Where("id = 1").UpdateColumn("value", gorm.Expr("value + 1")).Error; err != nil {
			return err
		}
		c := changed{object: object}
		if err := do(tx, &c); err != nil {
			return err
		}
		object := clip(c.object, maxObject)
		if err := logChange(tx, object); err != nil {
			return err
		}
		return tx.Create(&auditRow{
			At: now(), Actor: clip(actor, maxActor), Action: action, Object: object,
			BeforeState: visible(c.before), AfterState: visible(c.after),
		}).Error
	})
	if err != nil && !errors.Is(err, errDone) {
		return r.wrap(err)
	}
	if err := r.load(ctx); err != nil {
		r.Nudge() // it is stored; the snapshot follows
		return nil
	}
	if err == nil && r.opts.Announce != nil {
		r.opts.Announce(ctx, r.Snapshot().Revision)
	}
	return nil
}

// now is as exact as the databases keep it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// take reads the row with a key, and says whether there is one.
func take(tx *gorm.DB, row any, column string, key any) (found bool, err error) {
	err = tx.Where(clause.Eq{Column: column, Value: key}).Take(row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return false, nil
	}
	return err == nil, err
}

// PutTopic stores a topic, new or changed. Secrets nil keeps those it has, empty removes them. What is as it was changes nothing.
// Errors: *FieldError, ErrUnavailable.
func (r *Registry) PutTopic(ctx context.Context, actor string, t Topic) (created bool, err error) {
	if err := t.Validate(); err != nil {
		return false, err
	}
	err = r.change(ctx, actor, "put", "topic/"+t.Name, func(tx *gorm.DB, c *changed) error {
		t.CreatedAt = now()
		t.UpdatedAt = t.CreatedAt
		var row topicRow
		found, err := take(tx, &row, "name", t.Name)
		if err != nil {
			return err
		}
		created = !found
		// A row that cannot be read is replaced: this is how to mend it.
		if was, err := row.topic(); found && err == nil {
			c.before, t.CreatedAt = was, was.CreatedAt
			if t.Secrets == nil {
				t.Secrets = was.Secrets
			}
			if sameTopic(&t, was) {
				return errDone
			}
		}
		c.after = &t
		next, err := newTopicRow(&t)
		if err != nil {
			return err
		}
		was, _ := c.before.(*Topic)
		if was != nil && len(t.Secrets) == 0 {
			if err := forgetRotation(tx, t.Name); err != nil {
				return err
			}
		}
		if len(t.Secrets) > 0 && (was == nil || !slices.Equal(was.Secrets, t.Secrets)) {
			if err := noteSecrets(tx, t.Name); err != nil {
				return err
			}
		}
		if t.State == TopicActive {
			if err := tx.Model(&noteRow{}).Where("topic = ?", t.Name).Updates(notPaused).Error; err != nil {
				return err
			}
		}
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(next).Error
	})
	return created && err == nil, err
}

// sameTopic says whether a topic would be stored as it is.
func sameTopic(t, was *Topic) bool {
	next := *t
	next.UpdatedAt = was.UpdatedAt
	a, errA := newTopicRow(&next)
	b, errB := newTopicRow(was)
	return errA == nil && errB == nil && a.Spec == b.Spec
}

// DeleteTopic removes a topic. Errors: ErrNoTopic, ErrUnavailable.
func (r *Registry) DeleteTopic(ctx context.Context, actor, name string) error {
	return r.change(ctx, actor, "delete", "topic/"+name, func(tx *gorm.DB, c *changed) error {
		var row topicRow
		if found, err := take(tx, &row, "name", name); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("%.80q: %w", name, ErrNoTopic)
		}
		if was, err := row.topic(); err == nil {
			c.before = was
		}
		if err := errors.Join(tx.Where("topic = ?", name).Delete(&noteRow{}).Error, forgetRotation(tx, name)); err != nil {
			return err
		}
		return tx.Delete(&row).Error
	})
}

// SeedShards registers shards at the first start, once and for all: afterwards the registry holds them. None leaves that for later.
func (r *Registry) SeedShards(ctx context.Context, shards []Shard) error {
	if len(shards) == 0 {
		return nil
	}
	for _, s := range shards {
		if err := validShard(s); err != nil {
			return err
		}
	}
	return r.change(ctx, "configuration", "seed", "shards", func(tx *gorm.DB, c *changed) error {
		if err := once(tx, "seeded"); err != nil {
			return err
		}
		var there int64
		if err := tx.Model(&shardRow{}).Count(&there).Error; err != nil {
			return err
		}
		if there > 0 { // somebody registered one by hand before the first start
			return nil
		}
		names := make([]string, len(shards))
		for i, s := range shards {
			names[i] = s.Name
			if err := tx.Create(&shardRow{s.Name, s.URL, string(s.State)}).Error; err != nil {
				return err
			}
		}
		c.after = names
		return nil
	})
}

// once raises a flag of the revision's row; it is errDone when it was up already.
func once(tx *gorm.DB, flag string) error {
	res := tx.Model(&revisionRow{}).Where("id = 1 AND "+flag+" = 0").UpdateColumn(flag, 1)
	if res.Error == nil && res.RowsAffected == 0 {
		return errDone
	}
	return res.Error
}

func validShard(s Shard) error {
	errs := []error{validName("shard", s.Name), oneOf("state", string(s.State), string(ShardActive), string(ShardDraining), string(ShardOffline))}
	if s.URL == "" {
		errs = append(errs, malformed("url", "is missing: the address of a Redis, like redis://:password@host:6379/0"))
	}
	return errors.Join(errs...)
}

// PutShard registers a shard or changes one. Its URL is the caller's to check. Errors: *FieldError, ErrUnavailable.
func (r *Registry) PutShard(ctx context.Context, actor string, s Shard) error {
	if err := validShard(s); err != nil {
		return err
	}
	return r.change(ctx, actor, "put", "shard/"+s.Name, func(tx *gorm.DB, c *changed) error {
		var row shardRow
		found, err := take(tx, &row, "name", s.Name)
		if err != nil {
			return err
		}
		if found {
			was := row.shard()
			if was == s {
				return errDone
			}
			c.before = &was
		}
		c.after = &s
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&shardRow{s.Name, s.URL, string(s.State)}).Error
	})
}

// OtherActive says whether a shard beside this one is active: without one, the jobs of this one have nowhere to go when it drains.
func OtherActive(shards []Shard, name string) bool {
	return slices.ContainsFunc(shards, func(s Shard) bool { return s.Name != name && s.State == ShardActive })
}

// DeleteShard forgets a shard; whatever jobs it holds stay in it. Errors: ErrNoShard, ErrUnavailable.
func (r *Registry) DeleteShard(ctx context.Context, actor, name string) error {
	return r.change(ctx, actor, "delete", "shard/"+name, func(tx *gorm.DB, c *changed) error {
		var row shardRow
		if found, err := take(tx, &row, "name", name); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("%.80q: %w", name, ErrNoShard)
		}
		was := row.shard()
		c.before = &was
		return tx.Delete(&row).Error
	})
}

// ListShards lists the shards as last seen, by name. It works with the database away.
func (r *Registry) ListShards() []Shard { return slices.Clone(r.Snapshot().Shards) }
