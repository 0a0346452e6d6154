package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Push stores one job.
func (q *Queue) Push(ctx context.Context, p store.Push) store.Result {
	return q.PushBatch(ctx, []store.Push{p})[0]
}

// PushBatch stores jobs; each has its own outcome. A job goes to its home shard, or to the next in its order that
// accepts it.
func (q *Queue) PushBatch(ctx context.Context, pushes []store.Push) []store.Result {
	results := q.Try(ctx, pushes)
	q.Refused(pushes, results)
	return results
}

// Try is PushBatch for a caller that may accept what the shards refuse. It must call Refused afterwards.
func (q *Queue) Try(ctx context.Context, pushes []store.Push) []store.Result {
	pushes = store.WithVia(ctx, pushes)
	shards := *q.Shards.all.Load()
	if len(pushes) != 1 || len(shards) != 1 || shards[0].State() != "active" || validatePush(&pushes[0]) != nil {
		return q.pushAfterCompare(ctx, pushes, func(list []store.Push) []store.Result { return q.pushBatch(ctx, list) })
	}
	return q.pushAfterCompare(ctx, pushes, func(push []store.Push) []store.Result {
		return q.destination(shards[0], push[0].Topic).push(ctx, push)
	})
}

// Refused calls Options.Refused for the pushes that were not accepted.
func (q *Queue) Refused(pushes []store.Push, results []store.Result) {
	for i := range results {
		if results[i].Err == nil || q.opts.Refused == nil {
			continue
		}
		if un, ok := errors.AsType[*store.UnavailableError](results[i].Err); ok && !un.Stored {
			q.opts.Refused(pushes[i].Topic, un.Reason)
		}
	}
}

// validatePush returns an error if a push cannot be stored.
func validatePush(p *store.Push) error {
	if p.Delay > store.MaxDelay || (!p.DueAt.IsZero() && time.Until(p.DueAt) > store.MaxDelay) {
		return fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, store.ErrTooFar)
	}
	return nil
}

// destination is where pushes of a topic go: those of one destination share calls.
type destination struct {
	bucket     *store.Bucket
	durability store.Durability
}

func (q *Queue) destination(s *store.Shard, topic string) destination {
	return destination{s.BucketOf(topic), q.durability(topic)}
}

func (d destination) push(ctx context.Context, pushes []store.Push) []store.Result {
	return d.bucket.Push(ctx, d.durability, pushes)
}

func (q *Queue) durability(topic string) store.Durability {
	if q.opts.Durability == nil {
		return store.Memory
	}
	return q.opts.Durability(topic)
}

// pushAfterCompare repeats the pushes that no shard accepted because it is being compared, when one accepts pushes
// again. Those without a reply are checked later.
func (q *Queue) pushAfterCompare(
	ctx context.Context, pushes []store.Push, push func([]store.Push) []store.Result,
) []store.Result {
	results := push(pushes)
	defer func() { q.recheck(pushes, results) }()
	var which []int
	var list []store.Push
	for i := range results {
		if store.IsComparing(results[i].Err) {
			which, list = append(which, i), append(list, pushes[i])
		}
	}
	if len(list) == 0 || !store.AwaitOpen(ctx, q.opts.AwaitCompared, func() bool { return q.areOpen(list) }) {
		return results
	}
	for k, r := range push(list) {
		results[which[k]] = r
	}
	return results
}

// areOpen reports whether each push has a shard that is up.
func (q *Queue) areOpen(list []store.Push) bool {
	for i := range list {
		open := false
		for _, s := range q.Shards.activeFor(list[i].Topic, homeOf(list[i].ID, list[i].Key)) {
			open = open || !s.BucketOf(list[i].Topic).IsDown()
		}
		if !open {
			return false
		}
	}
	return true
}
