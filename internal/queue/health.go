package queue

import (
	"context"
	"sync"

	"github.com/wakecall/wakecall/internal/store"
)

// Health asks all shards concurrently.
func (q *Queue) Health(ctx context.Context) []store.ShardHealth {
	shards := q.Shards.All()
	list := make([]store.ShardHealth, len(shards))
	var wg sync.WaitGroup
	for i, s := range shards {
		wg.Go(func() { list[i] = s.Health(ctx) })
	}
	wg.Wait()
	return list
}
