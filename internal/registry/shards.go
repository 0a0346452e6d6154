package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// SeedShards registers shards once, at the first start. Called without shards it does nothing, so that a later start
// can still seed them.
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
		if there > 0 { // registered by hand before the first start
			return nil
		}
		names := make([]string, len(shards))
		for i, s := range shards {
			names[i] = s.Name
			if err := r.createShard(tx, &s); err != nil {
				return err
			}
		}
		c.After = names
		return nil
	})
}

// Seeded reports whether shards were registered already, so that SeedShards registers none. It returns false when the
// database does not answer.
func (r *Registry) Seeded(ctx context.Context) bool {
	var row revisionRow
	found, err := r.db.Find(ctx, &row, "id", 1)
	return err == nil && found && row.Seeded > 0
}

// createShard stores a new shard. A shard without an identity gets a new, unique one.
func (r *Registry) createShard(tx *gorm.DB, s *Shard) error {
	if err := checkFormer(tx, s); err != nil {
		return err
	}
	s.Identity = cmp.Or(s.Identity, rand.Text())
	row, err := sealedShard(r.db.Key, *s)
	if err != nil {
		return err
	}
	return tx.Create(row).Error
}

// checkFormer rejects a former name of another shard, because the journals have that shard's jobs under this name.
func checkFormer(tx *gorm.DB, s *Shard) error {
	var rows []shardRow
	if err := tx.Find(&rows).Error; err != nil {
		return err
	}
	for _, row := range rows {
		if row.Identity != s.Identity && slices.Contains(strings.Fields(row.Former), s.Name) {
			return Malformed("name", "field.former_name", s.Name, row.Name)
		}
	}
	return nil
}

// readShard reads a shard, without its URL if that is encrypted with another key.
func (r *Registry) readShard(tx *gorm.DB, name string) (s Shard, found bool, err error) {
	var row shardRow
	if found, err = database.Find(tx, &row, "name", name); found {
		s, _ = row.shard(r.db.Key)
	}
	return s, found, err
}

// mustReadShard is like readShard, but returns an error if the shard does not exist.
func (r *Registry) mustReadShard(tx *gorm.DB, name string) (Shard, error) {
	s, found, err := r.readShard(tx, name)
	if err == nil && !found {
		err = fmt.Errorf("%.80q: %w", name, ErrNoShard)
	}
	return s, err
}

// Validate checks everything except the form of the URL, and returns all errors.
func (s Shard) Validate() error {
	errs := []error{
		validName(s.Name),
		oneOf("state", s.State, ShardActive, ShardDraining, ShardOffline),
	}
	if s.URL == "" {
		errs = append(errs, Malformed("url", "field.redis_required"))
	}
	return errors.Join(errs...)
}

// PutShard registers or changes a shard. The caller must have checked its URL. Errors: *FieldError, ErrUnavailable.
func (r *Registry) PutShard(ctx context.Context, actor string, s Shard) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return r.Change(ctx, actor, "put", "shard/"+s.Name, func(tx *gorm.DB, c *Changed) error {
		was, found, err := r.readShard(tx, s.Name)
		if err != nil {
			return err
		}
		if !found {
			c.After = &s
			return r.createShard(tx, &s)
		}
		s.Identity, s.Former = was.Identity, was.Former
		if was == s {
			return ErrUnchanged
		}
		c.Before, c.After = &was, &s
		next, err := sealedShard(r.db.Key, s)
		if err != nil {
			return err
		}
		return tx.Save(next).Error
	})
}

// RenameShard renames a shard. Its data does not change: jobs, leases and the notes of hosts. Errors: ErrNoShard,
// *FieldError, ErrUnavailable.
func (r *Registry) RenameShard(ctx context.Context, actor, name, to string) error {
	if err := validName(to); err != nil {
		return err
	}
	return r.Change(ctx, actor, "rename", "shard/"+to, func(tx *gorm.DB, c *Changed) error {
		was, err := r.mustReadShard(tx, name)
		if err != nil {
			return err
		}
		if was.URL == "" {
			return Malformed("url", "field.sealed_url", name)
		}
		_, taken, err := r.readShard(tx, to)
		if err != nil {
			return err
		}
		if taken {
			return Malformed("name", "field.shard_taken", to)
		}
		is := was
		is.Name = to
		if !slices.Contains(strings.Fields(was.Former), name) {
			is.Former = strings.TrimSpace(was.Former + " " + name)
		}
		c.Before, c.After = &was, &is
		if err := tx.Delete(&shardRow{Name: name}).Error; err != nil {
			return err
		}
		return r.createShard(tx, &is)
	})
}

// OtherActive reports whether a shard other than this one is active. Otherwise this one cannot be drained.
func OtherActive(shards []Shard, name string) bool {
	return slices.ContainsFunc(shards, func(s Shard) bool { return s.Name != name && s.State == ShardActive })
}

// DeleteShard removes a shard from the registry. Its Redis keeps the jobs. Errors: ErrNoShard, ErrUnavailable.
func (r *Registry) DeleteShard(ctx context.Context, actor, name string) error {
	return r.Change(ctx, actor, "delete", "shard/"+name, func(tx *gorm.DB, c *Changed) error {
		was, err := r.mustReadShard(tx, name)
		if err != nil {
			return err
		}
		c.Before = &was
		return tx.Delete(&shardRow{Name: name}).Error
	})
}

// PresentName returns the current name of a shard, given its current or a former name, or "" if there is no such shard.
// Topics that are pinned to a shard keep the former name.
func (s *Snapshot) PresentName(shard string) string {
	for i := range s.Shards {
		if x := &s.Shards[i]; x.Name == shard || slices.Contains(strings.Fields(x.Former), shard) {
			return x.Name
		}
	}
	return ""
}

// ListShards returns the shards of the snapshot by name. It works while the database is unavailable.
func (r *Registry) ListShards() []Shard { return slices.Clone(r.Snapshot().Shards) }
