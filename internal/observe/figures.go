package observe

import (
	"context"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// Figures is a queue with what people read about it.
type Figures struct{ *queue.Queue }

// Workers describes the workers of a topic, as queue.WorkersOf does.
func (q Figures) Workers(ctx context.Context, topic string) (queue.Workers, error) {
	return queue.WorkersOf(ctx, q.Shards, topic)
}

// Bucket is a bucket that stores notes about callbacks.
type Bucket struct{ *store.Bucket }

// Note stores notes about the jobs of the bucket.
func (b Bucket) Note(ctx context.Context, n Notes) error { return Note(ctx, b.Bucket, n) }
