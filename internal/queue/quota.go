package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Draw draws up to n pushes from a token's quota of so many a second. It returns how many it got and how many are left,
// and without any when to ask again. The same shard counts for all hosts.
func (q *Queue) Draw(
	ctx context.Context, token uint64, rate, n int64,
) (drawn, left int64, again time.Duration, err error) {
	shards := q.Shards.All()
	if len(shards) == 0 {
		return 0, 0, 0, &store.UnavailableError{Reason: "no shard"}
	}
	b := shards[token%uint64(len(shards))].Buckets()[0]
	reply, err := b.CallList(ctx, drawFields, drawScript, token, rate, n)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("count the pushes of token %d: %w", token, err)
	}
	return store.Integer(reply[0]), store.Integer(reply[1]),
		time.Duration(store.Integer(reply[2])) * time.Millisecond, nil
}

const drawFields = 3

// Waiting returns how many jobs wait or run for each token with a quota of waiting jobs. Buckets that do not answer are
// left out.
func (q *Queue) Waiting(ctx context.Context) map[uint64]int64 {
	var mu sync.Mutex
	sum := map[uint64]int64{}
	_ = q.Shards.EachBucket(func(b *store.Bucket) error {
		list, err := b.CallList(ctx, -1, quotasScript)
		mu.Lock()
		defer mu.Unlock()
		for i := 0; i+1 < len(list); i += 2 {
			sum[uint64(store.Number(store.Text(list[i])))] += store.Number(store.Text(list[i+1]))
		}
		return err
	})
	return sum
}
