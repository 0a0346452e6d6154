package store

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Workers describes the workers of a pull topic, as their processes report them every few seconds.
type Workers struct {
	Waiting int
	Oldest  time.Time // when the oldest lease began, by the clock of the host that granted it; zero: none is held
}

// workersFor is how long a bucket remembers waiting workers; their process reports them again before that.
const workersFor = time.Minute

// NoteWorkers stores how many workers of a process wait for some topics. Those for which none waits any
// more (0) leave Redis.
func (b *Bucket) NoteWorkers(ctx context.Context, process string, waiting map[string]int) error {
	for topics := range slices.Chunk(slices.Collect(maps.Keys(waiting)), MaxTopics) {
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

// Workers returns who has worked on a topic lately.
func (b *Bucket) Workers(ctx context.Context, topic string) (w Workers, err error) {
	reply, err := b.CallList(ctx, 2, workersScript, "read", topic)
	if err != nil {
		return w, err
	}
	counts := Ints(reply)
	w.Waiting = int(counts[0])
	if counts[1] > 0 {
		w.Oldest = time.Unix(counts[1], 0)
	}
	return w, nil
}
