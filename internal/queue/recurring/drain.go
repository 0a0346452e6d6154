package recurring

import (
	"context"
	"errors"
	"fmt"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Drain moves the schedules of a draining shard to their new homes, before the shard's jobs are moved: the occurrences
// follow their schedules. After an error it may be repeated.
func (s *Schedules) Drain(ctx context.Context, shard *store.Shard) error {
	var errs []error
	for name, def := range s.registry.Snapshot().Schedules.All() {
		if s.queue.Shards.Named(def.Shard) != shard {
			continue
		}
		wait, err := s.runsIn(ctx, shard.BucketOf(def.Topic), def)
		if err == nil && !wait {
			err = s.moveOut(ctx, name, shard)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("move schedule %s out of shard %s: %w", name, shard.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// runsIn reports whether the newest occurrence runs, which must keep out the next one. It ends in its shard, so the
// schedule is moved afterwards.
func (s *Schedules) runsIn(ctx context.Context, b *store.Bucket, def *registry.Schedule) (bool, error) {
	if def.Overlap == registry.OverlapAllow {
		return false, nil
	}
	cursor, err := b.Cursor(ctx, def.Name)
	if err != nil || cursor == nil || len(cursor.Last) == 0 {
		return false, err
	}
	newest := store.Ref{Topic: def.Topic, ID: cursor.Last[len(cursor.Last)-1].ID}
	jobs, _, err := b.Read(ctx, []store.Ref{newest})
	return err == nil && jobs[0] != nil && jobs[0].State == store.Running, err
}

// moveOut moves one schedule. The old shard gets the new definition first, so that no host pushes an occurrence there
// any more. If the change is not committed then, the registry still has the old definition, which the old shard gets
// back, see heal.go.
func (s *Schedules) moveOut(ctx context.Context, name string, from *store.Shard) error {
	edit := func(was *registry.Schedule) (*registry.Schedule, error) {
		if was == nil || from.State() == string(registry.ShardActive) || s.queue.Shards.Named(was.Shard) != from {
			return was, registry.ErrUnchanged
		}
		home, err := s.queue.HomeOf(was.Topic, name)
		if err != nil {
			return nil, err
		}
		moved := *was
		moved.Shard = home.Name()
		return &moved, nil
	}
	var left *store.Bucket
	var revision int64
	place := func(ctx context.Context, was, now *registry.Schedule) error {
		to, err := s.bucketOf(now)
		if err != nil {
			return err
		}
		left, revision = from.BucketOf(was.Topic), now.Revision
		return s.carry(ctx, left, to, now)
	}
	if _, err := s.store(ctx, "system", "move", name, edit, place); err != nil || left == nil {
		return err
	}
	return s.queue.SetCursor(ctx, left, store.CursorChange{Name: name, Was: &revision})
}

// carry gives the new definition to the old bucket, and then the state that the schedule has there to the new one.
func (s *Schedules) carry(ctx context.Context, from, to *store.Bucket, now *registry.Schedule) error {
	c := store.CursorChange{Name: now.Name, Topic: now.Topic, Revision: now.Revision}
	if err := s.queue.SetCursor(ctx, from, c); err != nil {
		return err
	}
	cursor, err := from.Cursor(ctx, now.Name)
	switch {
	case err != nil:
		return err
	case cursor == nil: // removed since
		return store.ErrDefinition
	}
	c.Cursor, c.Last, c.Counts = cursor.At, cursor.Last, cursor.LeftOut
	return s.queue.SetCursor(ctx, to, c)
}
