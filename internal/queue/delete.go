package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// removal is the result of deleting a job in one shard.
type removal struct {
	job    *Job  // the known fields and the state that it was in; nil when there was none
	gone   *Job  // there is none now, but the first call, whose answer was lost, may have deleted it
	unsafe error // why no replica has confirmed it, when the durability requires one
}

func (s *Shard) remove(ctx context.Context, topic, id string, m Match, d Durability) (r removal, err error) {
	o, err := s.CallDurably(ctx, s.bucketOf(topic), d, deleteScript, topic, id, m.String())
	if err != nil {
		return r, err
	}
	if o.Unsafe != nil {
		r.unsafe = s.notReplicated("delete", topic, id, o.Unsafe)
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != 3 {
		return r, fmt.Errorf("delete %s/%s: %w", topic, id, errReply)
	}
	switch was := text(reply[0]); {
	case o.Doubtful && was == "":
		r.gone = &Job{Topic: topic, ID: id, Shard: s.name, Revision: integer(reply[2])}
		return r, s.unknown()
	case o.Doubtful && was == changedOther:
		return r, s.unknown()
	case was == changedOther:
		return r, fmt.Errorf("delete %s/%s: %w", topic, id, ErrChanged)
	case was != "" && was != string(Finished):
		r.job = &Job{
			Topic: topic, ID: id, Shard: s.name, State: State(was),
			CreatedAt: millis(reply[1]), Revision: integer(reply[2]),
		}
	}
	return r, nil
}

// removeAll removes every copy of a job: a push whose shard failed before it answered may have left one there, besides
// the one in the next shard. So it does not report success when a shard before the first that has the job does not
// answer. window is for how long a callback of a copy that was running may start.
func (q *Queue) removeAll(ctx context.Context, topic, id string, m Match) (window time.Duration, err error) {
	found := false
	var missed, unsafe, unsafeGone error // unsafeGone: an earlier deletion may not have reached a replica
	for _, s := range q.searchOrder(topic, id) {
		r, err := s.remove(ctx, topic, id, m, q.durability(topic))
		if r.gone != nil {
			if err := q.record(ctx, Deleted, *r.gone); err != nil {
				return window, err
			}
		}
		var un *UnavailableError
		switch {
		case errors.As(err, &un):
			if !found {
				missed = err
			}
			continue
		case err != nil:
			return window, err
		case r.job == nil:
			unsafeGone = cmp.Or(unsafeGone, r.unsafe)
			continue
		}
		unsafe = cmp.Or(unsafe, r.unsafe)
		m = nil // a copy has another ETag
		found = true
		if r.job.State == Running {
			window = max(window, s.startWindow(ctx, s.bucketOf(topic)))
		}
		if err := q.record(ctx, Deleted, *r.job); err != nil {
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
	return 0, q.orAbsent(ctx, topic, id, fmt.Errorf("%s/%s: %w", topic, id, ErrNotFound))
}

// Delete removes a job in any state. After it returns nil, no callback of the job starts; one that has started goes on.
// Errors: ErrNotFound, *UnavailableError.
func (q *Queue) Delete(ctx context.Context, topic, id string) error {
	return q.DeleteIf(ctx, topic, id, nil)
}

// DeleteIf is Delete under a condition. Errors: as Delete, and ErrChanged.
func (q *Queue) DeleteIf(ctx context.Context, topic, id string, m Match) error {
	window, err := q.removeAll(ctx, topic, id, m)
	if err == nil || Stored(err) {
		err = cmp.Or(outwait(ctx, window), err)
	}
	return err
}
