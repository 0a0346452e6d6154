package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// End ends leases, or changes jobs that are named by their ids; each has its own outcome. It asks all buckets at the
// same time, so the jobs of one that hangs hold up no others. When the call is repeated after an error, ends that the
// first call carried out return ErrLease.
func (q *Queue) End(ctx context.Context, list []End) []Ended {
	list = slices.Clone(list)
	done := make([]Ended, len(list))
	type place struct {
		s      *Shard
		bucket int
	}
	by := map[place][]int{}
	var asked sync.WaitGroup
	defer asked.Wait()
	for i := range list {
		list[i].via = ViaOf(ctx)
		l := list[i].Lease
		if l == nil {
			asked.Go(func() { done[i] = q.endByID(ctx, list[i]) })
			continue
		}
		s := q.shardNamed(l.Shard)
		if s == nil {
			err := fmt.Errorf("%s/%s: its shard is no longer in use: %w", l.Topic, l.ID, ErrLease)
			done[i] = Ended{Err: err, Ref: l.Ref, Verb: list[i].Verb}
			continue
		}
		p := place{s, s.bucketOf(l.Topic)}
		by[p] = append(by[p], i)
	}
	for p, which := range by {
		asked.Go(func() {
			for chunk := range slices.Chunk(which, EndLimit) {
				some := make([]End, len(chunk))
				for k, i := range chunk {
					some[k] = list[i]
				}
				for k, d := range p.s.endTogether(ctx, p.bucket, some) {
					done[chunk[k]] = d
				}
			}
		})
	}
	return done
}

// shardNamed returns the shard that has a name, or else one that had it: a lease has the name at its time.
func (q *Queue) shardNamed(name string) (former *Shard) {
	for _, s := range *q.shards.Load() {
		if s.name == name {
			return s
		}
		if slices.Contains(strings.Fields(s.former), name) {
			former = s
		}
	}
	return former
}

// endByID looks for the job in all shards that may have it.
func (q *Queue) endByID(ctx context.Context, e End) (d Ended) {
	err := q.search(e.Topic, e.ID, func(s *Shard) (bool, error) {
		d = s.endTogether(ctx, s.bucketOf(e.Topic), []End{e})[0]
		return !errors.Is(d.Err, ErrNotFound), unavailableOnly(d.Err)
	})
	if err = q.orAbsent(ctx, e.Topic, e.ID, err); err != nil {
		d = Ended{Err: err, Ref: e.Ref, Verb: e.Verb}
	}
	return d
}

func unavailableOnly(err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); ok {
		return err
	}
	return nil
}
