package queue

import (
	"context"

	"github.com/wakecall/wakecall/internal/store"
)

// Announce tells the processes that listen to any shard (Options.Announced) that the registry changed.
func (q *Queue) Announce(ctx context.Context, revision int64) {
	for _, s := range *q.shards.Load() {
		if s.Up() {
			// only a hint: processes poll the revision anyway
			_ = s.Redis().Publish(ctx, store.RegistryChannel, revision).Err()
		}
	}
}
