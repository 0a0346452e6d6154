package queue

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Moving is a job that is being moved.
type Moving = moving

// ReadMoving reads a job as Drain does before it moves the job.
func ReadMoving(ctx context.Context, from *store.Shard, topic, id string) ([]*Moving, error) {
	return readMoving(ctx, from.BucketOf(topic), topic, []store.Job{{ID: id}}, 0)
}

// Some moves those of the listed jobs that are due late enough, as Drain does.
func (q *Queue) Some(ctx context.Context, from *store.Shard, topic string, listed []store.Job) error {
	m := &mover{queue: q, from: from, holder: "me"}
	return m.some(ctx, time.Now(), from.BucketOf(topic), topic, listed)
}

// Move moves jobs that were read before, as Drain does.
func (q *Queue) Move(ctx context.Context, from, to *store.Shard, list []*Moving) error {
	m := &mover{queue: q, from: from, holder: "me"}
	return m.move(ctx, time.Now(), from.BucketOf(list[0].Topic), to.BucketOf(list[0].Topic), list)
}
