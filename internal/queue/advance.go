package queue

import (
	"context"
	"fmt"
	"time"
)

// Advance is the result of one call of Shard.Advance.
type Advance struct {
	Now     time.Time // Redis's clock in the script
	Next    time.Time // when the next job, lease or topic needs Advance; zero for none
	Moved   int       // jobs that became ready
	Expired int       // expired leases; their jobs are ready again, or dead
	More    bool      // the step was bounded and left work: call again at once
}

// advanceStep is the most jobs that one Advance moves.
const advanceStep = 500

// Advance makes due jobs of a bucket ready and ends expired leases, one bounded step at a time.
func (s *Shard) Advance(ctx context.Context, bucket int) (Advance, error) {
	reply, err := s.list(ctx, bucket, 6, "advance", advanceStep)
	if err != nil {
		return Advance{}, err
	}
	n := ints(reply)
	now := millis(n[0]).Add(time.Duration(n[5]) * time.Microsecond)
	a := Advance{Now: now, Moved: int(n[2]), Expired: int(n[3]), More: n[4] != 0}
	if n[1] >= 0 {
		a.Next = millis(n[1])
	}
	return a, nil
}

// NothingToAdvance reports whether Advance has nothing to do in a bucket, now or later: there is no delayed job, lease,
// parked topic or job that expires, and no finished job is remembered for a duration. It takes one plain command, where
// Advance takes five.
func (s *Shard) NothingToAdvance(ctx context.Context, bucket int) (bool, error) {
	n, err := s.existing(ctx, bucket, "due", "lease", "park", "exp", "old")
	return n == 0, err
}

// NothingReady reports whether Reserve would find no job in a bucket now and the next ready job wakes the dispatchers.
// Only Reserve requests that wake-up (the key idle). It takes one plain command: EXISTS counts a key each time it is
// named, so the count is four only if idle exists and no ring does.
func (s *Shard) NothingReady(ctx context.Context, bucket int) (bool, error) {
	n, err := s.existing(ctx, bucket, "q:0", "q:1", "q:2", "idle", "idle", "idle", "idle")
	return n == 4, err
}

func (s *Shard) existing(ctx context.Context, bucket int, names ...string) (int64, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = prefix(bucket) + name
	}
	n, err := s.client.Exists(ctx, keys...).Result()
	if err != nil {
		return 0, fmt.Errorf("poll shard %s: %w", s.name, err)
	}
	return n, nil
}
