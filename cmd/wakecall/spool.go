package main

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/recovery"
	"github.com/wakecall/wakecall/server"
)

// jobs is the queue for the API, with the spool behind it when there is one.
func (p *parts) jobs() server.Jobs {
	if !p.cfg.SpoolOn() {
		return p.queue
	}
	return &spooledQueue{p.queue, recovery.NewSpool(p.cfg.JournalDir(), p.journal), p.journal.Accepting}
}

// spoolRetry is when to push again what even the spool could not take.
const spoolRetry = 5 * time.Second

// spooledQueue spools the pushes that no shard could take.
type spooledQueue struct {
	*queue.Queue
	spool   *recovery.Spool
	healthy func() error
}

func (q *spooledQueue) Push(ctx context.Context, p queue.Push) queue.Result {
	r := q.Queue.Push(ctx, p)
	if r.Err == nil {
		return r
	}
	results := []queue.Result{r}
	q.keep([]queue.Push{p}, results)
	return results[0]
}

func (q *spooledQueue) PushBatch(ctx context.Context, pushes []queue.Push) []queue.Result {
	results := q.Queue.PushBatch(ctx, pushes)
	q.keep(pushes, results)
	return results
}

// keep spools what found no shard. Those that want to be refused if their id lives cannot be told whether it does.
func (q *spooledQueue) keep(pushes []queue.Push, results []queue.Result) {
	var which []int
	var wanted []queue.Push
	for i := range results {
		var un *queue.UnavailableError
		if errors.As(results[i].Err, &un) && un.Reason != "journal" && !un.Stored && pushes[i].OnDuplicate != queue.Refuse && q.Queue.Ready() != nil {
			which, wanted = append(which, i), append(wanted, pushes[i])
		}
	}
	if len(wanted) == 0 {
		return
	}
	jobs, err := q.spool.Keep(wanted)
	for k, i := range which {
		if err != nil {
			results[i].Err = &queue.UnavailableError{Reason: "journal", RetryAfter: spoolRetry, Err: err}
			continue
		}
		results[i] = queue.Result{Job: jobs[k]}
	}
}

// Ready is nil while the journal can be written: a push is taken in any case.
func (q *spooledQueue) Ready() error { return q.healthy() }
