package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// spoolRetry is when to push again what even the spool could not take.
const spoolRetry = 5 * time.Second

// SpooledQueue is a queue whose pushes go to a spool when no shard can take them.
type SpooledQueue struct {
	*queue.Queue
	spool     *Spool
	accepting func() error
}

// NewSpooledQueue puts a spool behind a queue; accepting is nil while the journal can be written.
func NewSpooledQueue(q *queue.Queue, s *Spool, accepting func() error) *SpooledQueue {
	return &SpooledQueue{q, s, accepting}
}

// Push spools p if no shard could take it.
func (q *SpooledQueue) Push(ctx context.Context, p queue.Push) queue.Result {
	r := q.Queue.Push(ctx, p)
	if r.Err == nil {
		return r
	}
	results := []queue.Result{r}
	q.keep(ctx, []queue.Push{p}, results)
	return results[0]
}

// PushBatch spools those that no shard could take.
func (q *SpooledQueue) PushBatch(ctx context.Context, pushes []queue.Push) []queue.Result {
	results := q.Queue.PushBatch(ctx, pushes)
	q.keep(ctx, pushes, results)
	return results
}

// keep spools what found no shard. Not those that want to be refused if their id exists: nobody can tell whether it
// does. Nor those that replace a job: it would be called with its old body when its shard is back, before the spool is
// drained.
func (q *SpooledQueue) keep(ctx context.Context, pushes []queue.Push, results []queue.Result) {
	var which []int
	var wanted []queue.Push
	for i := range results {
		var un *queue.UnavailableError
		if errors.As(results[i].Err, &un) && un.Reason != "journal" && !un.Stored && pushes[i].OnDuplicate == queue.Keep &&
			q.Queue.Ready() != nil {
			which, wanted = append(which, i), append(wanted, pushes[i])
		}
	}
	if len(wanted) == 0 {
		return
	}
	jobs, err := q.spool.Keep(queue.WithVia(ctx, wanted))
	for k, i := range which {
		if err != nil {
			results[i].Err = &queue.UnavailableError{Reason: "journal", RetryAfter: spoolRetry, Err: err}
			continue
		}
		results[i] = queue.Result{Job: jobs[k]}
	}
}

// Ready is nil while the journal can be written: a push is taken in any case.
func (q *SpooledQueue) Ready() error { return q.accepting() }
