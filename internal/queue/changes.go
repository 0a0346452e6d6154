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
	if err := q.opts.Changed(kind, jobs); err != nil {
		return &store.UnavailableError{Reason: "journal", RetryAfter: time.Second, Err: err}
	}
	return nil
}
