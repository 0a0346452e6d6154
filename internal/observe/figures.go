package observe

import (
	"context"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// Figures is a queue with what people read about it.
type Figures struct{ *queue.Queue }

// Shard is a shard that stores notes about callbacks.
type Shard struct{ *store.Shard }

// Note stores notes about the jobs of a bucket.
func (s Shard) Note(ctx context.Context, bucket int, n Notes) error {
	return Note(ctx, s.Shard, bucket, n)
}
