package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Ender ends leases.
type Ender interface {
	End(ctx context.Context, list []store.End) []store.Ended
}

// Release releases jobs that did not reach their client, without counting attempts.
func (e *Endpoint) Release(ctx context.Context, q Ender, jobs []store.Job) {
	for _, done := range q.End(context.WithoutCancel(ctx), store.Released(jobs)) {
		if done.Err != nil {
			e.Log.Warn("release a job that did not reach its client; its lease expires", "error", done.Err)
		}
	}
}

// End ends one job. It reports whether the job existed, in one of the states and with the lease.
func End(ctx context.Context, q Ender, e store.End) (done store.Ended, found bool, err error) {
	done = q.End(ctx, []store.End{e})[0]
	if IsMissing(done.Err) {
		return store.Ended{}, false, nil
	}
	return done, done.Err == nil, done.Err
}

// Remove removes one job, whatever its state.
func Remove(ctx context.Context, q Ender, topic, id string) (done store.Ended, found bool, err error) {
	return End(ctx, q, store.End{
		Ref: store.Ref{Topic: topic, ID: id}, In: []store.State{store.Delayed, store.Ready, store.Running, store.Dead},
		Verb: store.Done,
	})
}

// IsMissing reports whether an error means that the job or the lease does not exist, or that the job is in another
// state.
func IsMissing(err error) bool {
	return errors.Is(err, store.ErrLease) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrState)
}

// delayMark precedes the delay in an attempt's error.
const delayMark = " with a delay of "

// Delayed returns the attempt of a worker that gave a job back with a delay. done is what the worker did.
func Delayed(done string, delay time.Duration) *store.Attempt {
	return &store.Attempt{Error: done + delayMark + delay.String()}
}

// DelayOf returns the delay that a worker gave a job last or, failing that, that of its push.
func DelayOf(j *store.Job) time.Duration {
	for _, a := range slices.Backward(j.History) {
		if _, text, ok := strings.Cut(a.Error, delayMark); ok {
			delay, _ := time.ParseDuration(text) // from Delayed
			return delay
		}
	}
	return max(0, j.DueAt.Sub(j.CreatedAt))
}
