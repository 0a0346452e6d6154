package queue

import (
	"context"
	"fmt"

	"github.com/wakecall/wakecall/internal/store"
)

// Lookup returns the jobs of refs, thousands at once if need be, nil where no shard that is up has one. The named
// shard, if any, must be up.
func (q *Queue) Lookup(ctx context.Context, refs []store.Ref, shard string) ([]*store.Job, error) {
	jobs := make([]*store.Job, len(refs))
	for _, s := range q.drainingFirst() {
		if !s.Up() {
			if s.Name() == shard {
				return nil, fmt.Errorf("look up %d jobs: shard %s does not answer", len(refs), s.Name())
			}
			continue
		}
		var todo []int
		var asked []store.Ref
		for i, j := range jobs {
			if j == nil {
				todo, asked = append(todo, i), append(asked, refs[i])
			}
		}
		found, err := s.GetLive(ctx, asked)
		if err != nil {
			return nil, fmt.Errorf("look up %d jobs in shard %s: %w", len(asked), s.Name(), err)
		}
		for k, i := range todo {
			jobs[i] = found[k]
		}
	}
	return jobs, nil
}

// Get returns a job with its attempts. Errors: ErrNotFound, *UnavailableError.
func (q *Queue) Get(ctx context.Context, topic, id string) (job *store.Job, err error) {
	err = q.search(topic, id, func(s *store.Shard) (bool, error) {
		var err error
		job, err = s.Get(ctx, topic, id)
		return job != nil, err
	})
	return job, q.orAbsent(ctx, topic, id, err)
}
