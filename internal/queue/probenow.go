package queue

import (
	"context"

	"github.com/wakecall/wakecall/internal/store"
)

// ProbeNow lets the open breakers of a topic, one on each shard, call one due job now instead of at the next probe. It
// reports whether a breaker was open. With a *PartialError some shards did not answer.
func (q *Queue) ProbeNow(ctx context.Context, topic string) (open bool, err error) {
	err = q.EachTopic([]string{topic}, 1, func(s *store.Shard, bucket int, _ []string) error {
		was, err := s.ProbeNow(ctx, bucket, topic)
		open = open || was
		return err
	})
	return open, err
}
