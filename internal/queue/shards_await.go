package queue

import (
	"context"
	"errors"
	"time"
)

// awaitStep is how often a waiting call looks whether a bucket is open. The shard itself is probed every probeEvery.
const awaitStep = 10 * time.Millisecond

func isComparing(err error) bool {
	var un *UnavailableError
	return errors.As(err, &un) && un.Reason == comparing
}

// awaitOpen waits until open returns true, for at most as long as patience. It reports whether a call should be
// repeated.
func awaitOpen(ctx context.Context, patience time.Duration, open func() bool) bool {
	if patience <= 0 {
		return false
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	next := time.NewTicker(awaitStep)
	defer next.Stop()
	for !open() {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return false
		case <-next.C:
		}
	}
	return true
}

// awaitBucket waits after a script was refused because its bucket is being compared. Pushes wait only when no other
// shard accepts them, see pushAfterCompare, and takes only when there is no other shard. A probe asks for the state
// now.
func (s *Shard) awaitBucket(ctx context.Context, bucket int, script *Script) bool {
	alone := s.peers.Takers() <= 1
	if script.Comparing == ComparingRefuses || script.Comparing == ComparingWaitsAlone && !alone {
		return false
	}
	return awaitOpen(ctx, s.patience, func() bool { return !s.nodes[bucket].down.Load() })
}

// pushAfterCompare repeats the pushes that no shard accepted because it is being compared, when one accepts pushes
// again.
func (q *Queue) pushAfterCompare(ctx context.Context, pushes []Push, push func([]Push) []Result) []Result {
	results := push(pushes)
	var which []int
	var list []Push
	for i := range results {
		if isComparing(results[i].Err) {
			which, list = append(which, i), append(list, pushes[i])
		}
	}
	if len(list) == 0 || !awaitOpen(ctx, q.opts.AwaitCompared, func() bool { return q.areOpen(list) }) {
		return results
	}
	for k, r := range push(list) {
		results[which[k]] = r
	}
	return results
}

// areOpen reports whether each push has a shard that is up.
func (q *Queue) areOpen(list []Push) bool {
	for i := range list {
		open := false
		for _, s := range q.activeFor(list[i].Topic, list[i].ID) {
			open = open || !s.isDown(s.bucketOf(list[i].Topic))
		}
		if !open {
			return false
		}
	}
	return true
}
