package store

import (
	"errors"

	"github.com/wakecall/wakecall/internal/batch"
)

// How requests to a bucket share calls of a script.
const (
	maxCalls   = 2       // under way at once: one is encoded while Redis executes the other
	secondAt   = 128     // waiting jobs for which a second call is worth it
	maxPushed  = 512     // jobs in one call: about 3 ms of Redis
	maxTaken   = 256     // roughly the most jobs that one call takes or ends
	largeJobs  = 256     // of large requests in one call: about 2 ms of Redis
	maxBytes   = 1 << 20 // in one call
	MaxTopics  = 250     // in one call: a topic without due jobs takes some 2 µs of Redis
	maxWaiting = 20000   // jobs; more are refused
)

func (b *Bucket) batchOptions() batch.Options {
	calls := maxCalls
	if b.shard.standing != nil {
		calls = 1 // a second one may overtake the first, and the order of a test's pushes would vary
	}
	return batch.Options{
		Calls: calls, Jobs: maxTaken, LargeJobs: largeJobs, Bytes: maxBytes, Topics: MaxTopics,
		SecondAt: secondAt, Waiting: maxWaiting,
		Start: b.shard.Start,
		Refused: func(err error) error {
			if errors.Is(err, batch.ErrClosed) {
				return b.Unavailable("down", err)
			}
			return b.Unavailable("overloaded", err)
		},
	}
}
