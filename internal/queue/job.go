package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/wakecall/wakecall/internal/store"
)

// Get returns a job that has not finished, with its attempts. With also Finished it returns the finished one that is
// remembered when no other is found. Errors: ErrNotFound, *UnavailableError.
func (q *Queue) Get(ctx context.Context, topic, id string, also ...store.State) (job *store.Job, err error) {
	err = q.Shards.search(topic, id, func(b *store.Bucket) (bool, error) {
		var err error
		job, err = readLive(ctx, b, topic, id)
		return job != nil, err
	})
	err = q.Shards.orAbsent(ctx, topic, id, err)
	if !errors.Is(err, store.ErrNotFound) && !store.IsAbsent(err) || !slices.Contains(also, store.Finished) {
		return job, err
	}
	found, missed := q.Find(ctx, []store.Ref{{Topic: topic, ID: id}})
	if found[0] == nil {
		return nil, cmp.Or(missed, err)
	}
	return found[0], nil
}

// readLive returns a job that has not finished; nil if the bucket has none.
func readLive(ctx context.Context, b *store.Bucket, topic, id string) (*store.Job, error) {
	jobs, _, err := b.Read(ctx, []store.Ref{{Topic: topic, ID: id}})
	jobs, err = store.Live(jobs, err)
	return jobs[0], err
}

// Find returns the jobs of refs, thousands at once if need be: the live one, or else the one that finished last, or nil
// when no shard has any. With a *PartialError the jobs are from the shards that answered.
func (q *Queue) Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error) {
	jobs := make([]*store.Job, len(refs))
	err := each(q.Shards.drainingFirst(), func(s *store.Shard) error {
		var todo []int
		var asked []store.Ref
		for i, j := range jobs {
			if j == nil || j.State == store.Finished {
				todo, asked = append(todo, i), append(asked, refs[i])
			}
		}
		found, err := s.Read(ctx, asked)
		for k, i := range todo {
			if j := found[k]; j != nil && (jobs[i] == nil || j.State != store.Finished ||
				j.FinishedAt.After(jobs[i].FinishedAt)) {
				jobs[i] = j
			}
		}
		return err
	})
	return jobs, err
}
