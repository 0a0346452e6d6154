package queue

import (
	"context"

	"github.com/wakecall/wakecall/internal/store"
)

// TakeByID takes a ready, delayed or dead job for a worker, regardless of its topic's limits. The attempts of a dead
// one start again. Errors: ErrNotFound, also for a running job, *UnavailableError.
func (q *Queue) TakeByID(ctx context.Context, topic, id string) (job *store.Job, err error) {
	token := store.NewToken()
	err = q.Shards.search(topic, id, func(b *store.Bucket) (bool, error) {
		job, err = b.TakeByID(ctx, topic, id, token)
		return job != nil, err
	})
	if err != nil {
		return nil, q.Shards.orAbsent(ctx, topic, id, err)
	}
	if err := q.record(ctx, store.Redriven, *job); err != nil {
		q.End(ctx, store.Released([]store.Job{*job})) // otherwise its lease would expire, which counts an attempt
		return nil, err
	}
	return job, nil
}
