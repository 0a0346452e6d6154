package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
)

// SeedShards registers shards once, at the first start. Without any shards it does nothing, so that a later start can
// seed.
func (r *Registry) SeedShards(ctx context.Context, shards []Shard) error {
	if len(shards) == 0 {
		return nil
	}
	for _, s := range shards {
		if err := s.Validate(); err != nil {
			return err
		}
	}
	return r.Change(ctx, "configuration", "seed", "shards", func(tx *gorm.DB, c *Changed) error {
		if err := doOnce(tx, "seeded"); err != nil {
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
			row, err := sealedShard(r.db.Key, s)
			if err == nil {
				err = tx.Create(row).Error
			}
			if err != nil {
				return err
			}
		}
		c.After = names
		return nil
	})
}

// Validate checks all but the form of the URL, and reports all that is wrong.
func (s Shard) Validate() error {
	errs := []error{
		validName("shard", s.Name),
		oneOf("state", string(s.State), string(ShardActive), string(ShardDraining), string(ShardOffline)),
	}
	if s.URL == "" {
		errs = append(errs, malformed("url", "is missing: the address of a Redis, like redis://:password@host:6379/0"))
	}
	return errors.Join(errs...)
}

// PutShard registers a shard or changes one. Its URL is the caller's to check. Errors: *FieldError, ErrUnavailable.
func (r *Registry) PutShard(ctx context.Context, actor string, s Shard) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return r.Change(ctx, actor, "put", "shard/"+s.Name, func(tx *gorm.DB, c *Changed) error {
		var row shardRow
		found, err := database.Find(tx, &row, "name", s.Name)
		if err != nil {
			return err
		}
		if was, err := row.shard(r.db.Key); found && err == nil {
			if was == s {
				return ErrUnchanged
			}
			c.Before = &was
		}
		c.After = &s
		next, err := sealedShard(r.db.Key, s)
		if err != nil {
			return err
		}
		return database.Upsert(tx).Create(next).Error
	})
}

// OtherActive reports whether another shard than this one is active. Without one, this one cannot be drained.
func OtherActive(shards []Shard, name string) bool {
	return slices.ContainsFunc(shards, func(s Shard) bool { return s.Name != name && s.State == ShardActive })
}

// DeleteShard removes a shard from the registry; its jobs stay in it. Errors: ErrNoShard, ErrUnavailable.
func (r *Registry) DeleteShard(ctx context.Context, actor, name string) error {
	return r.Change(ctx, actor, "delete", "shard/"+name, func(tx *gorm.DB, c *Changed) error {
		var row shardRow
		if err := database.MustFind(tx, &row, "name", name, fmt.Errorf("%.80q: %w", name, ErrNoShard)); err != nil {
			return err
		}
		if was, err := row.shard(r.db.Key); err == nil {
			c.Before = &was
		}
		return tx.Delete(&row).Error
	})
}

// ListShards lists the shards of the snapshot by name. It works with the database away.
func (r *Registry) ListShards() []Shard { return slices.Clone(r.Snapshot().Shards) }
