package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/wakecall/wakecall/internal/store"
)

// activeFor lists the shards for a push: the one that the topic is pinned to, then the others in the order of
// rendezvous hashing. The first is the home of the id; the next takes its jobs while the home is down.
func (q *Queue) activeFor(topic, id string) []*store.Shard {
	return q.ranked(*q.takers.Load(), topic, id)
}

// order lists the shards that may have a job: active ones as in activeFor, then the others.
func (q *Queue) order(topic, id string) []*store.Shard {
	list := slices.Clone(q.ranked(*q.shards.Load(), topic, id))
	inactive := func(s *store.Shard) int {
		if s.State() == "active" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *store.Shard) int { return inactive(a) - inactive(b) })
	return list
}

// searchOrder is order, with the active shards again after draining ones: a job may have been moved there meanwhile.
func (q *Queue) searchOrder(topic, id string) []*store.Shard {
	order := q.order(topic, id)
	if n := len(order); n > 0 && order[n-1].State() == "draining" {
		order = append(order, q.activeFor(topic, id)...)
	}
	return order
}

// drainingFirst lists all shards, draining ones first, so that no job that is being moved is missed: it is in the
// draining shard, or afterwards in an active one.
func (q *Queue) drainingFirst() []*store.Shard {
	shards := slices.Clone(*q.shards.Load())
	slices.SortStableFunc(shards, func(a, b *store.Shard) int { return strings.Compare(b.State(), a.State()) })
	return shards
}

func (q *Queue) ranked(shards []*store.Shard, topic, id string) []*store.Shard {
	list := ByWeight(shards, topic, id)
	if len(list) < 2 || q.opts.Pinned == nil {
		return list
	}
	name := q.opts.Pinned(topic)
	if at := slices.IndexFunc(list, func(s *store.Shard) bool { return s.Name() == name }); at > 0 {
		home := list[at] // byWeight made the list, so it may be changed
		copy(list[1:], list[:at])
		list[0] = home
	}
	return list
}

// ByWeight sorts shards by rendezvous hashing.
func ByWeight(shards []*store.Shard, topic, id string) []*store.Shard {
	if len(shards) <= 1 {
		return shards
	}
	h := xxhash.New()
	_, _ = h.WriteString(topic)
	_, _ = h.Write([]byte{0})
	_, _ = h.WriteString(id)
	sum := h.Sum64()
	list := slices.Clone(shards)
	slices.SortFunc(list, func(a, b *store.Shard) int { return cmp.Compare(b.Weight(sum), a.Weight(sum)) })
	return list
}

// search asks the shards that may have a job until one has it. If none has it and one did not answer, it returns that
// shard's error.
func (q *Queue) search(topic, id string, ask func(*store.Shard) (found bool, err error)) error {
	var missed error
	for _, s := range q.searchOrder(topic, id) {
		found, err := ask(s)
		var un *store.UnavailableError
		switch {
		case errors.As(err, &un):
			missed = err
		case err != nil || found:
			return err
		}
	}
	if missed != nil {
		return missed
	}
	return fmt.Errorf("%s/%s: %w", topic, id, store.ErrNotFound)
}

// orAbsent returns err, or instead of ErrNotFound an *UnavailableError when the journal of an absent host may have the
// job.
func (q *Queue) orAbsent(ctx context.Context, topic, id string, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, s := range q.order(topic, id) {
		if away := s.Awaits(ctx, s.BucketOf(topic)); away != nil {
			return fmt.Errorf("%s/%s: %w", topic, id, away)
		}
	}
	return err
}

// PartialError accompanies an answer in which some shards are missing.
type PartialError struct {
	Shards []string
	Err    error // of the first one
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("without shard %s: %v", strings.Join(e.Shards, ", "), e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// IsPartial reports whether an error means that the answer is without some shards.
func IsPartial(err error) bool {
	var partial *PartialError
	return errors.As(err, &partial)
}

// eachShard asks all shards, also after an error. It returns errors as a *PartialError.
func (q *Queue) eachShard(ask func(*store.Shard) error) error {
	var partial *PartialError
	for _, s := range *q.shards.Load() {
		err := ask(s)
		switch {
		case err == nil:
			continue
		case partial == nil:
			partial = &PartialError{Err: err}
		}
		partial.Shards = append(partial.Shards, s.Name())
	}
	if partial == nil {
		return nil
	}
	return partial
}

// EachBucket asks every bucket of every shard.
func (q *Queue) EachBucket(ask func(s *store.Shard, bucket int) error) error {
	return q.eachShard(func(s *store.Shard) error {
		for b := range s.Buckets() {
			if err := ask(s, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachTopic asks every shard about topics: each bucket about its own, at most step topics in one call.
func (q *Queue) EachTopic(
	topics []string, step int, ask func(s *store.Shard, bucket int, topics []string) error,
) error {
	return q.eachShard(func(s *store.Shard) error {
		byBucket := make([][]string, s.Buckets())
		for _, t := range topics {
			for _, b := range s.BucketsOf(t) {
				byBucket[b] = append(byBucket[b], t)
			}
		}
		for b, names := range byBucket {
			for some := range slices.Chunk(names, step) {
				if err := ask(s, b, some); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// DownFor returns the names of the shards that may have a job and do not answer.
func (q *Queue) DownFor(topic, id string) (names []string) {
	for _, s := range q.order(topic, id) {
		if !s.Up() {
			names = append(names, s.Name())
		}
	}
	return names
}
