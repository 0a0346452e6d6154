package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// order lists the shards in which a job is looked for: active ones by rendezvous hashing (the first is its home, the next
// takes it while that is down), then the draining ones.
func (q *Queue) order(topic, id string) []*Shard {
	list := byWeight(*q.shards.Load(), topic, id)
	slices.SortStableFunc(list, func(a, b *Shard) int {
		if aa, ba := a.State() == "active", b.State() == "active"; aa != ba {
			if aa {
				return -1
			}
			return 1
		}
		return 0
	})
	return list
}

// byWeight is the order of rendezvous hashing.
func byWeight(shards []*Shard, topic, id string) []*Shard {
	if len(shards) <= 1 {
		return shards
	}
	h := xxhash.New()
	_, _ = h.WriteString(topic)
	_, _ = h.Write([]byte{0})
	_, _ = h.WriteString(id)
	sum := h.Sum64()
	list := slices.Clone(shards)
	slices.SortFunc(list, func(a, b *Shard) int { return cmp.Compare(mix(sum^b.seed), mix(sum^a.seed)) })
	return list
}

// mix spreads the bits of x (the finaliser of SplitMix64, by Sebastiano Vigna), so that weights of different shards are independent.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// active are the shards that take a push, its home first.
func (q *Queue) active(topic, id string) []*Shard { return byWeight(*q.takers.Load(), topic, id) }

// trail is order, with the active shards once more behind draining ones: a job may have gone from there to here meanwhile.
func (q *Queue) trail(topic, id string) []*Shard {
	order := q.order(topic, id)
	if n := len(order); n > 0 && order[n-1].State() == "draining" {
		order = append(slices.Clone(order), q.active(topic, id)...)
	}
	return order
}

// following lists all shards in an order in which no job that is being moved is missed: it is in the draining shard or in an active one after that.
func (q *Queue) following() []*Shard {
	shards := slices.Clone(*q.shards.Load())
	slices.SortStableFunc(shards, func(a, b *Shard) int { return strings.Compare(b.State(), a.State()) })
	return shards
}

// first asks the shards in a job's order until one knows it. When none does but one could not be asked, that is the error.
func (q *Queue) first(topic, id string, ask func(*Shard) (found bool, err error)) error {
	var missed error
	for _, s := range q.trail(topic, id) {
		found, err := ask(s)
		var un *UnavailableError
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
	return fmt.Errorf("%s/%s: %w", topic, id, ErrNotFound)
}

// PartialError is an answer without what the named shards would have said.
type PartialError struct {
	Shards []string
	Err    error // of the first
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("without shard %s: %v", strings.Join(e.Shards, ", "), e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// IsPartial says whether an error only means that some shards did not answer, beside an answer of the others.
func IsPartial(err error) bool {
	var partial *PartialError
	return errors.As(err, &partial)
}

// onEach asks every bucket of every shard about its topics, in steps. What fails makes a *PartialError; the rest is done.
func (q *Queue) onEach(topics []string, step int, ask func(s *Shard, bucket int, topics []string) error) error {
	var partial *PartialError
	for _, s := range *q.shards.Load() {
		err := s.eachStep(topics, step, func(bucket int, some []string) error { return ask(s, bucket, some) })
		if err == nil {
			continue
		}
		if partial == nil {
			partial = &PartialError{Err: err}
		}
		partial.Shards = append(partial.Shards, s.name)
	}
	if partial == nil {
		return nil
	}
	return partial
}

func (s *Shard) eachStep(topics []string, step int, ask func(bucket int, topics []string) error) error {
	byBucket := make([][]string, len(s.nodes))
	for _, t := range topics {
		b := s.bucketOf(t)
		byBucket[b] = append(byBucket[b], t)
	}
	for b, names := range byBucket {
		for some := range slices.Chunk(names, step) {
			if err := ask(b, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// everywhere asks every bucket of every shard. What fails makes a *PartialError; the rest is done.
func (q *Queue) everywhere(ask func(s *Shard, bucket int) error) error {
	var partial *PartialError
	for _, s := range *q.shards.Load() {
		for b := range s.nodes {
			err := ask(s, b)
			if err == nil {
				continue
			}
			if partial == nil {
				partial = &PartialError{Err: err}
			}
			partial.Shards = append(partial.Shards, s.name)
			break
		}
	}
	if partial == nil {
		return nil
	}
	return partial
}
