package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// spoolRetry is how long a client should wait before it repeats a push that even the spool could not store.
const spoolRetry = 5 * time.Second

// SpooledQueue is a queue whose pushes go to a spool when no shard accepts them.
type SpooledQueue struct {
	*queue.Queue
	spool     *Spool
	accepting func() error
}

// NewSpooledQueue combines a queue with a spool; accepting returns nil while the journal can be written.
func NewSpooledQueue(q *queue.Queue, s *Spool, accepting func() error) *SpooledQueue {
	return &SpooledQueue{q, s, accepting}
}

// Push pushes p, and spools it if no shard accepts it.
func (q *SpooledQueue) Push(ctx context.Context, p store.Push) store.Result {
	return q.PushBatch(ctx, []store.Push{p})[0]
}

// PushBatch pushes jobs, and spools those that no shard accepts.
func (q *SpooledQueue) PushBatch(ctx context.Context, pushes []store.Push) []store.Result {
	results := q.Try(ctx, pushes)
	q.keep(ctx, pushes, results)
	q.Refused(pushes, results)
	return results
}

// keep spools the pushes that no shard accepted, with two exceptions. Pushes that are refused if their id exists:
// whether it does is not known. Pushes that replace a job: it would be called with its old body when its shard is back,
// before the spool is drained.
func (q *SpooledQueue) keep(ctx context.Context, pushes []store.Push, results []store.Result) {
	var which []int
	var wanted []store.Push
	for i := range results {
		var un *store.UnavailableError
		if errors.As(results[i].Err, &un) && un.Reason != "journal" && !un.Stored &&
			pushes[i].OnDuplicate == store.Keep &&
			q.Queue.Ready() != nil {
			which, wanted = append(which, i), append(wanted, pushes[i])
		}
	}
	if len(wanted) == 0 {
		return
	}
	jobs, err := q.spool.Keep(store.WithVia(ctx, wanted))
	for k, i := range which {
		if err != nil {
			results[i].Err = &store.UnavailableError{Reason: "journal", RetryAfter: spoolRetry, Err: err}
			continue
		}
		results[i] = store.Result{Job: jobs[k]}
	}
}

// Ready returns nil while the journal can be written, since a push is then accepted in any case.
func (q *SpooledQueue) Ready() error { return q.accepting() }
