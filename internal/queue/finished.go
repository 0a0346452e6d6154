package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// finishedSteps bounds the calls of the script for one page of a list of finished jobs: a prefix may match few.
const finishedSteps = 100

// ListFinished returns up to limit finished jobs of a topic whose ids begin with a prefix, shard by shard, each shard's
// latest first, and the next cursor ("" at the end): there may be more even when these are fewer than limit.
func (q *Queue) ListFinished(
	ctx context.Context, topic, prefix, cursor string, limit int,
) ([]store.Job, string, error) {
	return q.list(topic, store.Finished, cursor, limit, finishedSteps,
		func(b *store.Bucket, inner string, limit int) ([]store.Job, string, error) {
			return b.List(ctx, topic, store.Finished, inner, limit, prefix)
		})
}

// Resend pushes a finished job again under its id, due now. Errors: ErrNotFound, ErrAlive, ErrBodyGone,
// *UnavailableError.
func (q *Queue) Resend(ctx context.Context, topic, id string) (*store.Job, error) {
	j, err := q.Get(ctx, topic, id, store.Finished)
	switch {
	case err != nil:
		return nil, err
	case j.State != store.Finished:
		return nil, fmt.Errorf("%s/%s is %s: %w", topic, id, j.State, store.ErrAlive)
	case j.BodyGone:
		return nil, fmt.Errorf("%s/%s: %w", topic, id, store.ErrBodyGone)
	}
	again := *j.Pushed() // without its expiry, which has passed, or was meant for the first time, and without its trace
	again.ExpiresAt, again.Traceparent = time.Time{}, ""
	again.OnDuplicate, again.Again = store.Refuse, true
	r := q.Push(ctx, again)
	if errors.Is(r.Err, store.ErrDuplicate) {
		return nil, fmt.Errorf("%s/%s is %s: %w", topic, id, r.Job.State, store.ErrAlive)
	}
	return &r.Job, r.Err
}
