package queue

import (
	"context"

	"github.com/wakecall/wakecall/internal/store"
)

// pushAfterCompare repeats the pushes that no shard accepted because it is being compared, when one accepts pushes
// again.
func (q *Queue) pushAfterCompare(
	ctx context.Context, pushes []store.Push, push func([]store.Push) []store.Result,
) []store.Result {
	results := push(pushes)
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
		for _, s := range q.Shards.activeFor(list[i].Topic, list[i].ID) {
			open = open || !s.BucketOf(list[i].Topic).IsDown()
		}
		if !open {
			return false
		}
	}
	return true
}
