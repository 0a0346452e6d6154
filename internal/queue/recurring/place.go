package recurring

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// place tells a schedule's shard a change of its definition. With catchUp, occurrences that came during a pause are not
// left out.
func (s *Schedules) place(catchUp bool) registry.PlaceSchedule {
	return func(ctx context.Context, was, now *registry.Schedule) error {
		switch {
		case was == nil:
			return s.begin(ctx, now)
		case was.Topic != now.Topic:
			return s.changeTopic(ctx, was, now)
		}
		return s.change(ctx, was, now, catchUp)
	}
}

// remove removes a schedule from its shard, if that is in use.
func (s *Schedules) remove(ctx context.Context, was *registry.Schedule) error {
	b := bucketIn(s.queue, was)
	if b == nil {
		return nil
	}
	return s.queue.SetCursor(ctx, b, store.CursorChange{Name: was.Name})
}

// begin sets a new schedule's cursor to now. What a schedule of the name has left there goes.
func (s *Schedules) begin(ctx context.Context, now *registry.Schedule) error {
	if err := s.remove(ctx, now); err != nil {
		return err
	}
	b, err := s.bucketOf(now)
	if err != nil {
		return err
	}
	return s.queue.SetCursor(ctx, b, store.CursorChange{Name: now.Name, Topic: now.Topic, Revision: now.Revision})
}

// changeTopic begins anew in the bucket of the new topic, and removes the schedule from that of the old one.
func (s *Schedules) changeTopic(ctx context.Context, was, now *registry.Schedule) error {
	if err := s.begin(ctx, now); err != nil {
		return err
	}
	if bucketIn(s.queue, was) == bucketIn(s.queue, now) {
		return nil // begin has removed it
	}
	return s.remove(ctx, was)
}

// tries is how often a change is tried whose cursor moves meanwhile: at most once a second.
const tries = 5

// change sets the cursor to now: what has come and was not pushed is left out. A pause that begins leaves the cursor
// where it is, so that its end can count what was left out, or catch it up.
func (s *Schedules) change(ctx context.Context, was, now *registry.Schedule, catchUp bool) error {
	b, err := s.bucketOf(now)
	if err != nil {
		return err
	}
	for try := range tries {
		cursor, err := b.Cursor(ctx, now.Name)
		if err != nil {
			return err
		}
		c := store.CursorChange{Name: now.Name, Topic: now.Topic, Revision: now.Revision}
		switch {
		case cursor == nil:
			return s.begin(ctx, now)
		case try > 0 && cursor.Revision == now.Revision: // by a call whose answer was lost; the journal needs a line
			return s.queue.SetCursor(ctx, b, c)
		}
		clock, err := b.Clock(ctx)
		if err != nil {
			return err
		}
		c.WasAt = cursor.At
		at := clock.Now.Truncate(time.Millisecond)
		if paused := was.IsPaused(at); at.After(cursor.At) && !catchUp && (paused || !now.IsPaused(at)) {
			c.Cursor, c.Reason = at, "edited"
			if paused {
				c.Reason = "paused"
			}
			if rule, err := was.Rule(); err == nil {
				c.LeftOut = rule.Count(cursor.At, at)
			}
		}
		if err = s.queue.SetCursor(ctx, b, c); !errors.Is(err, store.ErrMoved) {
			return err
		}
	}
	return store.ErrMoved
}
