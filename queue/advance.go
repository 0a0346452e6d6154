package queue

import (
	"context"
	"fmt"
	"time"
)

// Advance is the result of one call of Shard.Advance.
type Advance struct {
	Now     time.Time // Redis's clock in the script
	Next    time.Time // when there is something to do again; zero when nothing is to come
	Moved   int       // jobs that became ready
	Expired int       // leases that expired; their jobs are ready again, or dead
	More    bool      // work is left because the step is bounded: call again at once
}

// advanceStep is how many jobs one Advance moves at most.
const advanceStep = 500

// Advance moves what is due in a bucket: delayed jobs to the ready queues, expired leases back. It does a bounded step.
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

// NothingToAdvance reports that Advance would find nothing in a bucket, now or later: no job waits for its time, no
// lease runs, no topic is parked, no job expires, no finished job is remembered for a duration. It costs one plain
// command, where Advance takes five.
func (s *Shard) NothingToAdvance(ctx context.Context, bucket int) (bool, error) {
	n, err := s.existing(ctx, bucket, "due", "lease", "park", "exp", "old")
	return n == 0, err
}

// NothingReady reports that Reserve would find nothing in a bucket now, and that the next ready job wakes the
// dispatchers, which only Reserve asks for (idle). It costs one plain command: Redis counts a key as often as it is
// named, so four are there only while nothing but idle is.
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
