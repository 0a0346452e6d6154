package recurring

import (
	"context"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// counted makes jobs of a schedule count for the quotas of the token that made it.
func counted(s *registry.Snapshot, maker uint64, jobs []store.Push) []store.Push {
	if tokens := s.CountedFor(maker); tokens != "" {
		for i := range jobs {
			jobs[i].Quota = tokens
		}
	}
	return jobs
}

// spend takes pushes from the rate of the token that made a schedule. No occurrence is refused because of it.
func spend(ctx context.Context, q *queue.Queue, s *registry.Snapshot, maker uint64, n int) {
	for _, t := range s.Limits(maker) {
		if rate := t.Quotas.PushesPerSecond; rate > 0 && n > 0 {
			_, _, _, _ = q.Draw(ctx, t.ID, rate, int64(n)) // without a count there is no limit
		}
	}
}
