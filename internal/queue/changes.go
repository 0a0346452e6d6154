package queue

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// record calls Options.Changed. A change that cannot be recorded is not acknowledged.
func (q *Queue) record(ctx context.Context, kind store.ChangeKind, jobs ...store.Job) error {
	if len(jobs) == 0 || q.opts.Changed == nil {
		return nil
	}
	via, by := store.ViaOf(ctx), store.ByOf(ctx)
	for i := range jobs {
		jobs[i].Via, jobs[i].By = via, by
	}
	return unrecorded(q.opts.Changed(kind, jobs))
}

// unrecorded returns the error of a request whose line the journal refused; nil if it did not.
func unrecorded(err error) error {
	if err == nil {
		return nil
	}
	return &store.UnavailableError{Reason: "journal", RetryAfter: time.Second, Err: err}
}
