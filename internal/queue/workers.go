package queue

import (
	"context"

	"github.com/wakecall/wakecall/internal/store"
)

// Workers describes the workers of a topic. They wait at all shards at once, so the highest count is right. With a
// *PartialError the answer is from the shards that answered.
func (q *Queue) Workers(ctx context.Context, topic string) (w store.Workers, err error) {
	err = q.Shards.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		there, err := b.Workers(ctx, topic)
		w.Waiting = max(w.Waiting, there.Waiting)
		if w.Oldest.IsZero() || !there.Oldest.IsZero() && there.Oldest.Before(w.Oldest) {
			w.Oldest = there.Oldest
		}
		return err
	})
	return w, err
}
