// Package queuetest opens shards for tests.
package queuetest

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// Adopt opens a shard without comparing it with any journal, and waits until the queue uses it.
func Adopt(ctx context.Context, s *queue.Shard) error {
	for bucket := range s.Buckets() {
		c, err := s.Attend(ctx, bucket, queue.Attendance{Host: "adopted"})
		if err != nil {
			return err
		}
		if _, err := s.OpenBucket(
			ctx, bucket, queue.ComparedBy{Host: "adopted", Name: c.Name, Highest: c.After}); err != nil {
			return err
		}
		if _, err := s.OpenBucket(
			ctx, bucket, queue.ComparedBy{Host: "adopted", Mode: queue.ComparedForget}); err != nil {
			return err
		}
	}
	for !s.Up() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
