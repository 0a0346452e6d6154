package queue

import (
	"context"
	"fmt"

	"github.com/wakecall/wakecall/internal/store"
)

// Fire is store.Bucket.Fire with the journal's lines. When the journal cannot be written, it also returns what was
// fired, and the error is an *UnavailableError.
func (q *Queue) Fire(
	ctx context.Context, b *store.Bucket, list []store.Fire,
) (fired []store.Fired, clock store.Clock, err error) {
	for i := range list {
		list[i].Jobs = store.WithVia(ctx, list[i].Jobs)
	}
	if fired, clock, err = b.Fire(ctx, list); err != nil {
		return nil, clock, err
	}
	for i := range fired {
		if err = q.recordFired(ctx, b, &list[i], &fired[i]); err != nil {
			return fired, clock, err
		}
	}
	return fired, clock, nil
}

func (q *Queue) recordFired(ctx context.Context, b *store.Bucket, f *store.Fire, d *store.Fired) error {
	if d.Doubtful && d.What == store.FiredMoved && !d.Cursor.Before(f.New) {
		return q.recordDoubtful(ctx, b, f)
	}
	if d.Replaced != nil {
		if err := q.record(ctx, store.Deleted, *d.Replaced); err != nil {
			return err
		}
	}
	if len(d.Results) > 0 && q.opts.Accepted != nil {
		if err := unrecorded(q.opts.Accepted(f.Jobs, d.Results)); err != nil {
			return err
		}
	}
	return q.recordSchedule(d.Noted)
}

// recordDoubtful records what a call may have done whose answer was lost: jobs that it pushed, and one that it
// replaced. The cursor's line may be missing: the lines of the jobs raise the cursor, too.
func (q *Queue) recordDoubtful(ctx context.Context, b *store.Bucket, f *store.Fire) error {
	var revision int64 // of a pushed job; what was replaced was deleted before
	for i := range f.Jobs {
		job, err := readLive(ctx, b, f.Topic, f.Jobs[i].ID)
		if err != nil {
			return err
		}
		if job == nil {
			continue // it has ended, which has a line
		}
		revision = job.Revision
		if err := q.record(ctx, store.Changed, *job); err != nil {
			return err
		}
	}
	if f.Overlap != "replace" || revision == 0 {
		return nil
	}
	c, err := b.Cursor(ctx, f.Name)
	if err != nil || c == nil {
		return err
	}
	for _, o := range c.Last {
		if o.State == "replaced" {
			gone := store.Job{Topic: f.Topic, ID: o.ID, Shard: b.Name(), Revision: revision}
			if err := q.record(ctx, store.Deleted, gone); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *Queue) recordSchedule(c *store.ScheduleChange) error {
	if c == nil || q.opts.Scheduled == nil {
		return nil
	}
	return unrecorded(q.opts.Scheduled(*c))
}

// SetCursor is store.Bucket.SetCursor with the journal's line.
func (q *Queue) SetCursor(ctx context.Context, b *store.Bucket, c store.CursorChange) error {
	change, err := b.SetCursor(ctx, c)
	if err != nil {
		return err
	}
	return q.recordSchedule(change)
}

// HomeOf returns the shard for a new schedule: by its topic and name, or the next one if that does not answer.
func (q *Queue) HomeOf(topic, name string) (*store.Shard, error) {
	for _, s := range q.Shards.activeFor(topic, name) {
		if s.Up() {
			return s, nil
		}
	}
	return nil, fmt.Errorf("choose a shard for schedule %s: %w", name,
		&store.UnavailableError{Reason: "down", Err: q.noShard()})
}
