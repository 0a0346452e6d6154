package queue

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Queue is all shards together. Its methods may be called from any goroutine.
type Queue struct {
	Shards *Shards
	opts   store.Options

	mu     sync.Mutex // guards the following
	topics iter.Seq[store.TopicConf]
	// topicsVersion counts changes of topics' limits.
	topicsVersion uint64
}

// Open makes a queue without shards; Shards.Set adds them.
func Open(o store.Options) *Queue {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Buckets <= 0 {
		o.Buckets = 16
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Pace == nil {
		o.Pace = &store.DefaultPace
	}
	q := &Queue{opts: o}
	resync := func(ctx context.Context, s *store.Shard) error { return q.syncTopics(ctx, nil, s) }
	q.Shards = newShards(o, resync, q.catchUp)
	return q
}

// Close closes all connections. No method may be called afterwards.
func (q *Queue) Close() error { return q.Shards.close() }

// Now returns the time, by this host's clock or by one that stands until it is moved.
func (q *Queue) Now() time.Time {
	if q.opts.StandingClock != nil {
		return q.opts.StandingClock()
	}
	return time.Now()
}

// Ready returns nil when a push can be accepted now, otherwise the reason.
func (q *Queue) Ready() error { return q.Shards.ready() }

// DownFor returns the names of the shards that may have a job and do not answer.
func (q *Queue) DownFor(topic, id string) (names []string) {
	for _, one := range q.Shards.order(topic, id) {
		if !one.Up() {
			names = append(names, one.Name())
		}
	}
	return names
}
