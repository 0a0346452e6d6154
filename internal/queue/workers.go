package queue

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Workers describes the workers of a pull topic, as their processes report them every few seconds.
type Workers struct {
	Waiting int
	Oldest  time.Time // when the oldest lease began, by the clock of the host that granted it; zero: none is held
}

// workersFor is how long a bucket remembers waiting workers; their process reports them again before that.
const workersFor = time.Minute

// NoteWorkers stores how many workers of a process wait for some topics of a bucket. Those for which none waits any
// more (0) leave Redis.
func NoteWorkers(ctx context.Context, b *store.Bucket, process string, waiting map[string]int) error {
	for topics := range slices.Chunk(slices.Collect(maps.Keys(waiting)), store.MaxTopics) {
		args := []any{"note", process, workersFor.Milliseconds()}
		for _, topic := range topics {
			args = append(args, topic, waiting[topic])
		}
		if _, err := b.Call(ctx, workersScript, args...); err != nil {
			return err
		}
	}
	return nil
}

// WorkersOf describes the workers of a topic. They wait at all shards at once, so the highest count is right. With a
// *PartialError the answer is from the shards that answered.
func WorkersOf(ctx context.Context, s *Shards, topic string) (w Workers, err error) {
	err = s.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		reply, err := b.CallList(ctx, 2, workersScript, "read", topic)
		if err != nil {
			return err
		}
		counts := store.Ints(reply)
		w.Waiting = max(w.Waiting, int(counts[0]))
		if oldest := time.Unix(counts[1], 0); counts[1] > 0 && (w.Oldest.IsZero() || oldest.Before(w.Oldest)) {
			w.Oldest = oldest
		}
		return nil
	})
	return w, err
}
