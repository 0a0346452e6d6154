package queue

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// SomeForTest moves those of the listed jobs that are due late enough, as Drain does.
func (q *Queue) SomeForTest(ctx context.Context, from *store.Shard, topic string, listed []store.Job) error {
	m := &mover{queue: q, from: from, holder: "me"}
	return m.some(ctx, time.Now(), topic, listed)
}

// MoveForTest moves jobs that were read before, as Drain does.
func (q *Queue) MoveForTest(ctx context.Context, from, to *store.Shard, list []*store.Moving) error {
	m := &mover{queue: q, from: from, holder: "me"}
	return m.move(ctx, time.Now(), to, list)
}
