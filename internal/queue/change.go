package queue

import (
	"context"
	"fmt"

	"github.com/wakecall/wakecall/internal/store"
)

// Change edits a delayed or ready job. Errors: ErrNotFound, ErrRunning, ErrDead, ErrChanged, ErrTooFar, ErrExpires,
// *UnavailableError. With an error for which Stored is true it also returns the changed job.
func (q *Queue) Change(ctx context.Context, topic, id string, c store.Change) (*store.Job, error) {
	what, err := c.Args()
	if err != nil {
		return nil, fmt.Errorf("change %s/%s: %w", topic, id, err)
	}
	return q.change(ctx, store.Changed, topic, id, c.Match, what)
}

// RunNow makes a job due now if it matches; the attempts of a dead one start again. It does not touch a ready or
// running job. Errors: ErrNotFound, ErrChanged, *UnavailableError.
func (q *Queue) RunNow(ctx context.Context, topic, id string, m store.Match) (*store.Job, error) {
	return q.change(ctx, store.MadeDue, topic, id, m, store.RunArgs)
}

// change changes the first job of this id that it finds, and then any copies in other shards, which would otherwise be
// delivered unchanged: a push whose answer was lost may have left one. It ignores errors of the copies, since the job
// itself is changed. A shard that does not answer may have the job, so change then leaves the shards after it alone.
func (q *Queue) change(
	ctx context.Context, kind store.ChangeKind, topic, id string, m store.Match, what []any,
) (job *store.Job, err error) {
	var unsafe error
	missed := false
	err = q.Shards.search(topic, id, func(b *store.Bucket) (bool, error) {
		if job != nil {
			if hasOther(ctx, b, job) {
				_, _, _ = q.changeIn(ctx, b, kind, topic, id, nil, what)
			}
			return false, nil
		}
		if missed {
			return false, nil
		}
		var err error
		job, unsafe, err = q.changeIn(ctx, b, kind, topic, id, m, what)
		missed = err != nil
		return false, err
	})
	if job != nil {
		return job, unsafe
	}
	return nil, q.Shards.orAbsent(ctx, topic, id, err)
}

// hasOther reports whether a bucket has another job of this job's id. A job with the same creation time is the same
// job, being moved between shards: if both were changed, neither would be removed (see Drain).
func hasOther(ctx context.Context, b *store.Bucket, job *store.Job) bool {
	found, err := readLive(ctx, b, job.Topic, job.ID)
	return err == nil && found != nil && !found.CreatedAt.Equal(job.CreatedAt)
}

// changeIn changes a job in one bucket and records that.
func (q *Queue) changeIn(
	ctx context.Context, b *store.Bucket, kind store.ChangeKind, topic, id string, m store.Match, what []any,
) (job *store.Job, unsafe, err error) {
	job, unsafe, err = b.Change(ctx, q.durability(topic), topic, id, m, what)
	if err != nil || job == nil {
		return nil, nil, err
	}
	if err := q.record(ctx, kind, *job); err != nil {
		return nil, nil, err
	}
	return job, unsafe, nil
}
