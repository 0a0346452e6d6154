package queue

import (
	"context"
	"fmt"

	"github.com/wakecall/wakecall/internal/store"
)

// ProbeNow lets the open breakers of a topic, one on each shard, call one due job now instead of at the next probe. It
// reports whether a breaker was open. With a *PartialError some shards did not answer.
func (q *Queue) ProbeNow(ctx context.Context, topic string) (open bool, err error) {
	err = q.Shards.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		reply, err := b.Call(ctx, probeNowScript, topic)
		open = open || store.Integer(reply.Value) == 1
		if err != nil {
			return fmt.Errorf("probe the endpoint of %s: %w", topic, err)
		}
		return nil
	})
	return open, err
}
