package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// errDone ends a transaction that found nothing to change.
var errDone = errors.New("nothing to change")

// change makes a change, its audit entry and the next revision in one transaction, and shows it in the snapshot before it returns.
func (r *Registry) change(ctx context.Context, actor, action, object string, do func(tx *gorm.DB) (before, after any, err error)) error {
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
		before, after, err := do(tx)
		if err != nil {
			return err
		}
		return tx.Create(&auditRow{
			At: time.Now().UTC(), Actor: actor, Action: action, Object: object, BeforeState: visible(before), AfterState: visible(after),
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

func missing(err error) bool { return errors.Is(err, gorm.ErrRecordNotFound) }

// PutTopic stores a topic, new or changed. Secrets nil keeps those it has. Errors: *FieldError, ErrUnavailable.
func (r *Registry) PutTopic(ctx context.Context, actor string, t Topic) (created bool, err error) {
	if err := t.Validate(); err != nil {
		return false, err
	}
	err = r.change(ctx, actor, "put", "topic/"+t.Name, func(tx *gorm.DB) (any, any, error) {
		var row topicRow
		var old any
		t.UpdatedAt = time.Now().UTC().Truncate(time.Microsecond)
		t.CreatedAt = t.UpdatedAt
		err := tx.Where("name = ?", t.Name).Take(&row).Error
		switch created = missing(err); {
		case created:
		case err != nil:
			return nil, nil, err
		default:
			was, err := row.topic()
			if err != nil {
				return nil, nil, err
			}
			old, t.CreatedAt = was, was.CreatedAt
			if t.Secrets == nil {
				t.Secrets = was.Secrets
			}
		}
		next, err := newTopicRow(&t)
		if err != nil {
			return nil, nil, err
		}
		return old, &t, tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(next).Error
	})
	return created, err
}

// DeleteTopic removes a topic. Errors: ErrNoTopic, ErrUnavailable.
func (r *Registry) DeleteTopic(ctx context.Context, actor, name string) error {
	return r.change(ctx, actor, "delete", "topic/"+name, func(tx *gorm.DB) (any, any, error) {
		var row topicRow
		if err := tx.Where("name = ?", name).Take(&row).Error; missing(err) {
			return nil, nil, fmt.Errorf("%s: %w", name, ErrNoTopic)
		} else if err != nil {
			return nil, nil, err
		}
		was, err := row.topic()
		if err != nil {
			return nil, nil, err
		}
		return was, nil, tx.Delete(&row).Error
	})
}

// SeedShards registers shards at the first start, once and for all: afterwards the registry holds them.
func (r *Registry) SeedShards(ctx context.Context, shards []Shard) error {
	return r.change(ctx, "configuration", "seed", "shards", func(tx *gorm.DB) (any, any, error) {
		res := tx.Model(&revisionRow{}).Where("id = 1 AND seeded = 0").UpdateColumn("seeded", 1)
		if res.Error != nil || res.RowsAffected == 0 {
			return nil, nil, errors.Join(res.Error, errDone)
		}
		var names []string
		for _, s := range shards {
			names = append(names, s.Name)
			if err := tx.Create(&shardRow{s.Name, s.URL, string(s.State)}).Error; err != nil {
				return nil, nil, err
			}
		}
		return nil, names, nil
	})
}

// PutShard registers a shard or changes one. Its URL is the caller's to check.
func (r *Registry) PutShard(ctx context.Context, actor string, s Shard) error {
	err := errors.Join(ValidTopicName(s.Name), oneOf("state", string(s.State), string(ShardActive), string(ShardDraining), string(ShardOffline)))
	if err != nil {
		return err
	}
	return r.change(ctx, actor, "put", "shard/"+s.Name, func(tx *gorm.DB) (any, any, error) {
		var row shardRow
		var old any
		if err := tx.Where("name = ?", s.Name).Take(&row).Error; err == nil {
			old = &Shard{row.Name, row.URL, ShardState(row.State)}
		} else if !missing(err) {
			return nil, nil, err
		}
		return old, &s, tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&shardRow{s.Name, s.URL, string(s.State)}).Error
	})
}

// DeleteShard forgets a shard; whatever jobs it holds stay in it. Errors: ErrNoShard, ErrUnavailable.
func (r *Registry) DeleteShard(ctx context.Context, actor, name string) error {
	return r.change(ctx, actor, "delete", "shard/"+name, func(tx *gorm.DB) (any, any, error) {
		var row shardRow
		if err := tx.Where("name = ?", name).Take(&row).Error; missing(err) {
			return nil, nil, fmt.Errorf("%s: %w", name, ErrNoShard)
		} else if err != nil {
			return nil, nil, err
		}
		return &Shard{row.Name, row.URL, ShardState(row.State)}, nil, tx.Delete(&row).Error
	})
}

// AuditFilter chooses entries of the audit trail; zero fields choose all.
type AuditFilter struct {
	Object string // such as topic/shop.close
	Before uint64 // entries older than this one
	Limit  int    // 0: 100
}

// Audit lists changes, newest first.
func (r *Registry) Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	q := r.db.WithContext(ctx).Order("id DESC").Limit(f.Limit)
	if f.Object != "" {
		q = q.Where("object = ?", f.Object)
	}
	if f.Before > 0 {
		q = q.Where("id < ?", f.Before)
	}
	var rows []auditRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, r.wrap(err)
	}
	list := make([]AuditEntry, len(rows))
	for i, a := range rows {
		list[i] = AuditEntry{
			a.ID, a.At.UTC(), a.Actor, a.Action, a.Object, json.RawMessage(a.BeforeState), json.RawMessage(a.AfterState),
		}
	}
	return list, nil
}

func joinRights(rights []Right) string {
	s := make([]string, len(rights))
	for i, r := range rights {
		s[i] = string(r)
	}
	return strings.Join(s, ",")
}
