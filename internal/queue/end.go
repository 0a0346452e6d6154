package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wakecall/wakecall/internal/store"
)

// End ends leases, or changes jobs that are named by their ids; each has its own outcome. It asks all buckets at the
// same time, so the jobs of one that hangs hold up no others. When the call is repeated after an error, ends that the
// first call carried out return ErrLease.
func (q *Queue) End(ctx context.Context, list []store.End) []store.Ended {
	list = slices.Clone(list)
	done := make([]store.Ended, len(list))
	type place struct {
		s      *store.Shard
		bucket int
	}
	by := map[place][]int{}
	var asked sync.WaitGroup
	defer asked.Wait()
	for i := range list {
		list[i].Via = store.ViaOf(ctx)
		l := list[i].Lease
		if l == nil {
			asked.Go(func() { done[i] = q.endByID(ctx, list[i]) })
			continue
		}
		s := q.ShardNamed(l.Shard)
		if s == nil {
			err := fmt.Errorf("%s/%s: its shard is no longer in use: %w", l.Topic, l.ID, store.ErrLease)
			done[i] = store.Ended{Err: err, Ref: l.Ref, Verb: list[i].Verb}
			continue
		}
		p := place{s, s.BucketOf(l.Topic)}
		by[p] = append(by[p], i)
	}
	for p, which := range by {
		asked.Go(func() {
			for chunk := range slices.Chunk(which, store.EndLimit) {
				some := make([]store.End, len(chunk))
				for k, i := range chunk {
					some[k] = list[i]
				}
				for k, d := range p.s.EndTogether(ctx, p.bucket, some) {
					done[chunk[k]] = d
				}
			}
		})
	}
	return done
}

// ShardNamed returns the shard that has a name, or else one that had it: a lease has the name at its time.
func (q *Queue) ShardNamed(name string) (former *store.Shard) {
	for _, s := range *q.shards.Load() {
		if s.Name() == name {
			return s
		}
		if slices.Contains(strings.Fields(s.Former()), name) {
			former = s
		}
	}
	return former
}

// endByID looks for the job in all shards that may have it.
func (q *Queue) endByID(ctx context.Context, e store.End) (d store.Ended) {
	err := q.search(e.Topic, e.ID, func(s *store.Shard) (bool, error) {
		d = s.EndTogether(ctx, s.BucketOf(e.Topic), []store.End{e})[0]
		return !errors.Is(d.Err, store.ErrNotFound), store.UnavailableOnly(d.Err)
	})
	if err = q.orAbsent(ctx, e.Topic, e.ID, err); err != nil {
		d = store.Ended{Err: err, Ref: e.Ref, Verb: e.Verb}
	}
	return d
}
