package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// removeAll removes every copy of a job: a push whose shard failed before it answered may have left one there, besides
// the one in the next shard. So it does not report success when a shard before the first that has the job does not
// answer. window is for how long a callback of a copy that was running may start.
func (q *Queue) removeAll(ctx context.Context, topic, id string, m store.Match) (window time.Duration, err error) {
	found := false
	var missed, unsafe, unsafeGone error // unsafeGone: an earlier deletion may not have reached a replica
	for _, s := range q.Shards.searchOrder(topic, id) {
		b := s.BucketOf(topic)
		r, err := b.Remove(ctx, topic, id, m, q.durability(topic))
		if r.Gone != nil {
			if err := q.record(ctx, store.Deleted, *r.Gone); err != nil {
				return window, err
			}
		}
		var un *store.UnavailableError
		switch {
		case errors.As(err, &un):
			if !found {
				missed = err
			}
			continue
		case err != nil:
			return window, err
		case r.Job == nil:
			unsafeGone = cmp.Or(unsafeGone, r.Unsafe)
			continue
		}
		unsafe = cmp.Or(unsafe, r.Unsafe)
		m = nil // a copy has another ETag
		found = true
		if r.Job.State == store.Running {
			window = max(window, b.StartWindow(ctx))
		}
		if err := q.record(ctx, store.Deleted, *r.Job); err != nil {
			return window, err
		}
	}
	switch {
	case missed != nil:
		return window, missed
	case found:
		return window, unsafe
	case unsafeGone != nil:
		return 0, unsafeGone
	}
	return 0, q.Shards.orAbsent(ctx, topic, id, fmt.Errorf("%s/%s: %w", topic, id, store.ErrNotFound))
}

// Delete removes a job in any state if it matches. After it returns nil, no callback of the job starts; one that has
// started goes on. Errors: ErrNotFound, ErrChanged, *UnavailableError.
func (q *Queue) Delete(ctx context.Context, topic, id string, m store.Match) error {
	window, err := q.removeAll(ctx, topic, id, m)
	if err == nil || store.Stored(err) {
		err = cmp.Or(store.Outwait(ctx, window), err)
	}
	return err
}
