package admintest

import (
	"context"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Schedules keeps the definitions of schedules in a registry, and has any cursors, but no shards.
type Schedules struct {
	Registry *registry.Registry
	Known    map[string]*store.Cursor // by schedule
	Away     error                    // of the shards
	Would    recurring.Backfilled
	Runs     int // jobs pushed by hand
	Pushed   int // by backfills
	CaughtUp bool
}

func (s *Schedules) Get(_ context.Context, name string) (*recurring.View, error) {
	def := s.Registry.Snapshot().Schedules.Get(name)
	if def == nil {
		return nil, fmt.Errorf("%q: %w", name, registry.ErrNoSchedule)
	}
	v := &recurring.View{Schedule: def, Cursor: s.Known[name], Err: s.Away}
	if s.Away != nil {
		v.Cursor = nil
	}
	v.Next = recurring.Next(def, time.Now(), 5)
	return v, nil
}

func (s *Schedules) States(_ context.Context, list []*registry.Schedule) []recurring.View {
	views := make([]recurring.View, len(list))
	for i, def := range list {
		views[i] = recurring.View{Schedule: def, Cursor: s.Known[def.Name], Err: s.Away}
	}
	return views
}

func (s *Schedules) change(
	ctx context.Context, actor, action, name string, edit registry.ScheduleEdit,
) (*registry.Schedule, error) {
	return s.Registry.ChangeSchedule(ctx, actor, action, name, edit,
		func(context.Context, *registry.Schedule, *registry.Schedule) error { return s.Away })
}

func (s *Schedules) Put(
	ctx context.Context, actor string, def registry.Schedule, may func(was *registry.Schedule) error,
) (stored *registry.Schedule, created bool, err error) {
	if err := def.Validate(); err != nil {
		return nil, false, err
	}
	stored, err = s.change(ctx, actor, "put", def.Name, func(was *registry.Schedule) (*registry.Schedule, error) {
		created = was == nil
		def.Shard = "a"
		return &def, may(was)
	})
	return stored, created, err
}

func (s *Schedules) Delete(ctx context.Context, actor, name string) error {
	_, err := s.change(ctx, actor, "delete", name, func(*registry.Schedule) (*registry.Schedule, error) { return nil, nil })
	return err
}

func (s *Schedules) Pause(ctx context.Context, actor, name string, until time.Time) (*registry.Schedule, error) {
	return s.change(ctx, actor, "pause", name, func(was *registry.Schedule) (*registry.Schedule, error) {
		if was != nil {
			was.State, was.PausedUntil = registry.TopicPaused, until
		}
		return was, nil
	})
}

func (s *Schedules) Resume(ctx context.Context, actor, name string, catchUp bool) (*registry.Schedule, error) {
	s.CaughtUp = catchUp
	return s.change(ctx, actor, "resume", name, func(was *registry.Schedule) (*registry.Schedule, error) {
		if was != nil {
			was.State, was.PausedUntil = registry.TopicActive, time.Time{}
		}
		return was, nil
	})
}

func (s *Schedules) Run(_ context.Context, name string) (*store.Job, error) {
	if s.Registry.Snapshot().Schedules.Get(name) == nil {
		return nil, fmt.Errorf("%q: %w", name, registry.ErrNoSchedule)
	}
	s.Runs++
	return &store.Job{ID: fmt.Sprintf("%s!2026-11-23T10:00:00.%03dZ", name, s.Runs)}, s.Away
}

func (s *Schedules) Backfill(_ context.Context, _ string, b recurring.Backfill) (*recurring.Backfilled, error) {
	if b.From.IsZero() {
		return nil, registry.Malformed("from", "field.instant_required")
	}
	if !b.From.Before(b.To) {
		return nil, registry.OutOfRange("to", "field.end_at")
	}
	if b.DryRun {
		return &recurring.Backfilled{Occurrences: s.Would.Occurrences}, s.Away
	}
	s.Pushed += s.Would.Pushed
	return &s.Would, s.Away
}
