package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// End ends leases, or changes jobs that are named by their ids; each has its own outcome. It asks all buckets at the same
// time, so the jobs of one that hangs hold up no others. When the call is repeated after an error, endings that the
// first call carried out return ErrLease.
func (q *Queue) End(ctx context.Context, list []Ending) []Ended {
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
		done[i].Ref, done[i].Verb = list[i].Ref, list[i].Verb
		if list[i].Lease == "" {
			asked.Go(func() { done[i] = q.endByID(ctx, list[i]) })
			continue
		}
		t, err := parseTicket(list[i].Lease)
		s := q.shardNamed(t.shard)
		if err == nil && s == nil {
			err = fmt.Errorf("%s/%s: its shard is no longer in use: %w", t.topic, t.id, ErrLease)
		}
		if err != nil {
			done[i].Err = err
			continue
		}
		p := place{s, s.bucketOf(t.topic)}
		by[p] = append(by[p], i)
	}
	for p, which := range by {
		asked.Go(func() {
			for chunk := range slices.Chunk(which, EndLimit) {
				some := make([]Ending, len(chunk))
				for k, i := range chunk {
					some[k] = list[i]
				}
				for k, d := range p.s.end(ctx, p.bucket, some) {
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
func (q *Queue) endByID(ctx context.Context, e Ending) (d Ended) {
	err := q.search(e.Topic, e.ID, func(s *Shard) (bool, error) {
		d = s.end(ctx, s.bucketOf(e.Topic), []Ending{e})[0]
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
