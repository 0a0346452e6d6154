package store

import (
	"context"
	"fmt"
)

// ProbeNow lets the open breaker of a topic call one due job now. It reports whether the breaker was open.
func (s *Shard) ProbeNow(ctx context.Context, bucket int, topic string) (open bool, err error) {
	reply, err := s.Call(ctx, bucket, probeNowScript, topic)
	if err != nil {
		return false, fmt.Errorf("probe the endpoint of %s: %w", topic, err)
	}
	return Integer(reply.Value) == 1, nil
}
