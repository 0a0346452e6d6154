package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Queue is all shards together. Its methods may be called from any goroutine.
type Queue struct {
	opts   store.Options
	turn   atomic.Uint64                     // counts calls of Spots: each begins with another shard
	shards atomic.Pointer[[]*store.Shard]    // by name, without offline ones
	names  atomic.Pointer[map[string]string] // identity → name, for all shards of the registry
	takers atomic.Pointer[[]*store.Shard]    // the active ones, read at once: one by one, all may seem inactive

	mu     sync.Mutex // guards the following and changes to shards
	topics iter.Seq[store.TopicConf]
	// topicsVersion counts changes of topics' limits.
	topicsVersion uint64
	retired       map[*store.Shard]*time.Timer // no longer in use, until they are closed
}

// retireAfter is how long a shard that is no longer in use stays open, so that running callbacks can be settled.
const retireAfter = time.Minute

// Open makes a queue without shards; SetShards adds them.
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
	q := &Queue{opts: o, retired: map[*store.Shard]*time.Timer{}}
	q.shards.Store(&[]*store.Shard{})
	q.takers.Store(&[]*store.Shard{})
	return q
}

// Close closes all connections. No method may be called afterwards.
func (q *Queue) Close() error {
	q.mu.Lock()
	shards := *q.shards.Swap(&[]*store.Shard{})
	for s, t := range q.retired {
		if t.Stop() {
			shards = append(shards, s)
		}
	}
	q.mu.Unlock() // a shard waits for its listener, which may be waiting for q.mu
	var errs []error
	for _, s := range shards {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// retire closes a shard after a while. q.mu is held.
func (q *Queue) retire(s *store.Shard) {
	q.retired[s] = time.AfterFunc(retireAfter, func() {
		if err := s.Close(); err != nil {
			q.opts.Logger.Warn("closing a shard that is no longer in use failed", "shard", s.Name(), "error", err)
		}
		q.mu.Lock()
		delete(q.retired, s)
		q.mu.Unlock()
	})
}

// SetShards makes the queue use these shards. It leaves out shards that it cannot open (with a wrong URL), and names
// them in the error.
func (q *Queue) SetShards(_ context.Context, configs []store.ShardConfig) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := map[string]*store.Shard{}
	for _, s := range *q.shards.Load() {
		old[s.Name()] = s
	}
	names := map[string]string{}
	for _, c := range configs {
		if c.Identity != "" {
			names[c.Identity] = c.Name
		}
	}
	q.names.Store(&names)
	list, takers := []*store.Shard{}, []*store.Shard{}
	var errs []error
	for _, c := range configs {
		if c.State == "offline" {
			continue
		}
		s := old[c.Name]
		if s == nil || !s.IsOf(c) {
			var err error
			if s, err = store.OpenShard(c, q.opts, q.peers()); err != nil {
				errs = append(errs, err)
				continue
			}
			if q.opts.Announced != nil {
				s.Start(func() { s.Announcements(q.opts.Announced) })
				s.Start(s.KeepTopics)
			}
		} else {
			delete(old, c.Name)
		}
		s.SetState(c.State)
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *store.Shard) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, s := range list {
		if s.State() == "active" {
			takers = append(takers, s)
		}
	}
	q.shards.Store(&list)
	q.takers.Store(&takers)
	for _, s := range old {
		q.retire(s)
	}
	return errors.Join(errs...)
}

// peers is what each shard has to know of the others.
func (q *Queue) peers() store.Peers {
	return store.Peers{
		Names:  func() map[string]string { return *q.names.Load() },
		Takers: func() int { return len(*q.takers.Load()) },
		Resync: func(ctx context.Context, s *store.Shard) error { return q.syncTopics(ctx, nil, s) },
	}
}

// Shards returns the registry's shards that are not offline, by name.
func (q *Queue) Shards() []*store.Shard { return slices.Clone(*q.shards.Load()) }

// Ready returns nil when a push can be accepted now, otherwise the reason.
func (q *Queue) Ready() error {
	err := errors.New("no shard is active: register one, or set redis.nodes")
	for _, s := range *q.takers.Load() {
		if err = s.Proven(); err == nil {
			return nil
		}
		err = fmt.Errorf("shard %s does not answer: %w", s.Name(), err)
	}
	return err
}
