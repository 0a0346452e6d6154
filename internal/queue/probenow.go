package queue

import (
	"context"
	"fmt"
)

// ProbeNow lets the open breakers of a topic, one on each shard, call one due job now instead of at the next probe. It
// reports whether a breaker was open. With a *PartialError some shards did not answer.
func (q *Queue) ProbeNow(ctx context.Context, topic string) (open bool, err error) {
	err = q.eachTopic([]string{topic}, 1, func(s *Shard, bucket int, _ []string) error {
		was, err := s.probeNow(ctx, bucket, topic)
		open = open || was
		return err
	})
	return open, err
}

func (s *Shard) probeNow(ctx context.Context, bucket int, topic string) (open bool, err error) {
	reply, err := s.Call(ctx, bucket, probeNowScript, topic)
	if err != nil {
		return false, fmt.Errorf("probe the endpoint of %s: %w", topic, err)
	}
	return integer(reply.Value) == 1, nil
}
