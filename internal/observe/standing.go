package observe

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Standing is what a waiting job may wait for, on its shard.
type Standing struct {
	Before      int64     // due jobs of its topic that are taken before it: those of its priority
	Held        bool      // others of its key run or come first
	Running     int64     // jobs of the topic
	MaxInFlight int64     // the shard's share of the topic's limit; 0: no limit
	Paced       time.Time // when rate_limit allows the next job; zero: it does not hold the job up
	Window      int64     // calls in flight that the endpoint is allowed
	Failures    int64     // calls without an answer, in a row
	BreakerOpen time.Time // when the breaker allows the next probe; zero: it is closed
}

// What standing.lua returns instead of a place.
const (
	gone = -1
	held = -2
)

const standingFields = 6 // of each topic in the answer of standing.lua

// Standing reads what a job waits for. ok is false if it no longer waits.
func (q Figures) Standing(ctx context.Context, j *store.Job) (st Standing, ok bool, err error) {
	s := q.Shards.Named(j.Shard)
	if s == nil {
		return st, false, nil
	}
	v, err := s.BucketOf(j.Topic).CallList(ctx, 1+standingFields, standingScript, j.ID, j.Topic)
	if err != nil {
		return st, false, err
	}
	n := store.Ints(v)
	return Standing{
		Before: max(n[0], 0), Held: n[0] == held, Window: n[1], Failures: n[2],
		BreakerOpen: unlessZero(n[3]), Running: n[4], MaxInFlight: n[5], Paced: unlessZero(n[6]),
	}, n[0] != gone, nil
}

func unlessZero(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return store.Millis(ms)
}
