package recurring

import (
	"context"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// patience is for how long a shard may have another definition than the registry: an edit tells the shard first, and
// this process learns of it afterwards.
const patience = 10 * time.Second

// differs deals with a shard that has another definition of a schedule, or none. The registry's counts: its edit was
// not committed, or its backup was restored, or the shard's data and its journals were lost.
func (l *lane) differs(ctx context.Context, e *entry, d *store.Fired) {
	e.cursor, e.at = time.Time{}, l.clock.Now.Add(askAgain)
	if e.other.IsZero() {
		e.other = time.Now()
	}
	if time.Since(e.other) < patience {
		return
	}
	if time.Since(l.asked) >= askAgain { // not for each of many schedules
		l.asked = time.Now()
		l.opts.Registry.Refresh(ctx)
	}
	if !l.opts.Registry.Up() || l.opts.Registry.Snapshot().Schedules.Get(e.Name) != e.Schedule {
		return
	}
	c := store.CursorChange{Name: e.Name, Topic: e.Topic, Revision: e.Revision}
	if d.What == store.FiredOther {
		c.Was = &d.Revision
	}
	err := l.opts.Queue.SetCursor(ctx, l.bucket, c)
	l.opts.Logger.Warn("the shard has another definition of a schedule than the registry, which counts",
		"schedule", e.Name, "shard", l.bucket.Name(), "found", string(d.What), "error", err)
}

// inUse reports whether the registry has a shard of this name in use. The queue may not know it yet, or still know it.
func inUse(s *registry.Snapshot, name string) bool {
	name = s.PresentName(name)
	return slices.ContainsFunc(s.Shards, func(one registry.Shard) bool {
		return one.Name == name && one.State != registry.ShardOffline
	})
}

// rehome gives the schedules of shards that are no longer in use to this bucket, if it is their home.
func (l *lane) rehome(ctx context.Context) {
	if !l.opts.Registry.Up() || time.Since(l.looked) < askAgain {
		return
	}
	l.looked = time.Now()
	for _, def := range l.astray {
		home, err := l.opts.Queue.HomeOf(def.Topic, def.Name)
		if err != nil || home.BucketOf(def.Topic) != l.bucket {
			continue
		}
		err = l.move(ctx, def, home)
		l.opts.Logger.Warn("a schedule's shard is no longer in use; the schedule goes on in another",
			"schedule", def.Name, "shard", def.Shard, "now", home.Name(), "error", err)
		if err != nil {
			return
		}
	}
}

// move stores another shard in a definition. The cursor goes on where a recovery has set it, or where this process saw
// it last, or else from now on.
func (l *lane) move(ctx context.Context, def *registry.Schedule, home *store.Shard) error {
	edit := func(was *registry.Schedule) (*registry.Schedule, error) {
		if was == nil || was.Shard != def.Shard {
			return was, registry.ErrUnchanged
		}
		moved := *was
		moved.Shard = home.Name()
		return &moved, nil
	}
	place := func(ctx context.Context, was, now *registry.Schedule) error {
		c := store.CursorChange{Name: now.Name, Topic: now.Topic, Revision: now.Revision}
		recovered, err := l.bucket.Cursor(ctx, now.Name)
		if err != nil {
			return err
		}
		if seen, ok := l.known.Load(now.Name); ok && recovered == nil && seen.(where).revision == was.Revision {
			c.Cursor = seen.(where).at
		}
		return l.opts.Queue.SetCursor(ctx, l.bucket, c)
	}
	_, err := New(l.opts.Queue, l.opts.Registry).store(ctx, "system", "move", def.Name, edit, place)
	return err
}
