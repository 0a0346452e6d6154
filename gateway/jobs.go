package gateway

import (
	"context"
	"errors"

	"github.com/wakecall/wakecall/internal/queue"
)

// Ender ends leases.
type Ender interface {
	End(ctx context.Context, list []queue.End) []queue.Ended
}

// Release releases jobs that did not reach their client, without counting attempts.
func (e *Endpoint) Release(ctx context.Context, q Ender, jobs []queue.Job) {
	for _, done := range q.End(context.WithoutCancel(ctx), queue.Released(jobs)) {
		if done.Err != nil {
			e.Log.Warn("release a job that did not reach its client; its lease expires", "error", done.Err)
		}
	}
}

// End ends one job. It reports whether the job existed, in one of the states and with the lease.
func End(ctx context.Context, q Ender, e queue.End) (done queue.Ended, found bool, err error) {
	done = q.End(ctx, []queue.End{e})[0]
	if IsMissing(done.Err) {
		return queue.Ended{}, false, nil
	}
	return done, done.Err == nil, done.Err
}

// Remove removes one job, whatever its state.
func Remove(ctx context.Context, q Ender, topic, id string) (done queue.Ended, found bool, err error) {
	return End(ctx, q, queue.End{
		Ref: queue.Ref{Topic: topic, ID: id}, In: []queue.State{queue.Delayed, queue.Ready, queue.Running, queue.Dead},
		Verb: queue.Done,
	})
}

// IsMissing reports whether an error means that the job or the lease does not exist, or that the job is in another
// state.
func IsMissing(err error) bool {
	return errors.Is(err, queue.ErrLease) || errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrState)
}
