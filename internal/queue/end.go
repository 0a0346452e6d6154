package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/wakecall/wakecall/internal/store"
)

// End ends leases, or changes jobs that are named by their ids; each has its own outcome. It asks all buckets at the
// same time, so the jobs of one that hangs hold up no others. When the call is repeated after an error, ends that the
// first call carried out return ErrLease.
func (q *Queue) End(ctx context.Context, list []store.End) []store.Ended {
	list = slices.Clone(list)
	done := make([]store.Ended, len(list))
	by := map[*store.Bucket][]int{}
	var asked sync.WaitGroup
	defer asked.Wait()
	for i := range list {
		list[i].Via = store.ViaOf(ctx)
		l := list[i].Lease
		if l == nil {
			asked.Go(func() { done[i] = q.endByID(ctx, list[i]) })
			continue
		}
		s := q.Shards.Named(l.Shard)
		if s == nil {
			err := fmt.Errorf("%s/%s: its shard is no longer in use: %w", l.Topic, l.ID, store.ErrLease)
			done[i] = store.Ended{Err: err, Ref: l.Ref, Verb: list[i].Verb}
			continue
		}
		b := s.BucketOf(l.Topic)
		by[b] = append(by[b], i)
	}
	for b, which := range by {
		asked.Go(func() {
			for chunk := range slices.Chunk(which, store.EndLimit) {
				some := make([]store.End, len(chunk))
				for k, i := range chunk {
					some[k] = list[i]
				}
				for k, d := range b.EndTogether(ctx, some) {
					done[chunk[k]] = d
				}
			}
		})
	}
	return done
}

// endByID looks for the job in all shards that may have it.
func (q *Queue) endByID(ctx context.Context, e store.End) (d store.Ended) {
	err := q.Shards.search(e.Topic, e.ID, func(b *store.Bucket) (bool, error) {
		d = b.EndTogether(ctx, []store.End{e})[0]
		return !errors.Is(d.Err, store.ErrNotFound), store.UnavailableOnly(d.Err)
	})
	if err = q.Shards.orAbsent(ctx, e.Topic, e.ID, err); err != nil {
		d = store.Ended{Err: err, Ref: e.Ref, Verb: e.Verb}
	}
	return d
}
