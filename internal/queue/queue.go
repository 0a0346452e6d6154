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
)

// ShardConfig is a shard's entry in the registry.
type ShardConfig struct {
	Name  string
	URL   string // as in redis.nodes of the configuration
	State string // active, draining (takes no new jobs) or offline
	// Identity is the expected identity of the shard's data, see identity.go. "": any.
	Identity string
	Former   string // earlier names of the shard, separated by spaces
}

// Options of a Queue. Zero values mean the defaults named here.
type Options struct {
	Timeout  time.Duration // of one Redis command, 2 s
	PoolSize int           // connections to each server, go-redis's default
	Buckets  int           // parts of a Cluster, 16; must stay the same for the life of its data
	Logger   *slog.Logger
	// Accepted is called with every batch of pushes that a shard answered, before their callers get the answer: an
	// error fails all pushes that were stored. It may be called from several goroutines.
	Accepted func([]Push, []Result) error
	// Changed is called with every other accepted change of jobs, after it was made and before its caller is
	// answered: an error becomes the caller's. It may be called from several goroutines.
	Changed func(ChangeKind, []Job) error
	// Ended is called with every batch of endings that a shard answered, before their callers get the answer: an error
	// fails all that were carried out by their ids, but not the ends of leases. It may be called from several
	// goroutines.
	Ended func([]Ended) error
	// Durability returns a topic's durability. nil: Memory for all.
	Durability func(topic string) Durability
	// Remembers reports whether in a topic a push of a finished job's id is a duplicate (see TopicConf.Remember). Only
	// a queue of several shards calls it, for jobs that were not in their home. nil: never.
	Remembers func(topic string) bool
	// Pinned returns the shard that takes all jobs of a topic while it can, so that their order is exact; "": the jobs
	// are spread. nil: the jobs of all topics are spread.
	Pinned func(topic string) string
	// Announced is called after any process called Announce, and when such calls may have been missed. It must return
	// at once. nil: the queue does not listen to announcements.
	Announced func()
	// Settings describes, for people, the settings that should be the same on all hosts. Health publishes it under the
	// name in Host, and reports which other hosts differ. "": neither; no Host: it is not published.
	Host, Settings string
	// AwaitCompared is how long a call may wait for a shard that is being compared with the journals, within its
	// context. 0: not at all, for processes that do other work meanwhile.
	AwaitCompared time.Duration
	// Pace limits the moves of jobs out of draining shards. nil: DefaultPace.
	Pace *MovePace
}

// Queue is all shards together. Its methods may be called from any goroutine.
type Queue struct {
	opts   Options
	turn   atomic.Uint64                     // counts calls of Spots: each begins with another shard
	shards atomic.Pointer[[]*Shard]          // by name, without offline ones
	names  atomic.Pointer[map[string]string] // identity → name, for all shards of the registry
	takers atomic.Pointer[[]*Shard]          // the active ones, read at once: one by one, all may seem inactive

	mu     sync.Mutex // guards the following and changes to shards
	topics iter.Seq[TopicConf]
	// topicsVersion counts changes of topics' limits.
	topicsVersion uint64
	retired       map[*Shard]*time.Timer // no longer in use, until they are closed
}

// retireAfter is how long a shard that is no longer in use stays open, so that running callbacks can be settled.
const retireAfter = time.Minute

// Open makes a queue without shards; SetShards adds them.
func Open(o Options) *Queue {
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
		o.Pace = &DefaultPace
	}
	q := &Queue{opts: o, retired: map[*Shard]*time.Timer{}}
	q.shards.Store(&[]*Shard{})
	q.takers.Store(&[]*Shard{})
	return q
}

// Close closes all connections. No method may be called afterwards.
func (q *Queue) Close() error {
	q.mu.Lock()
	shards := *q.shards.Swap(&[]*Shard{})
	for s, t := range q.retired {
		if t.Stop() {
			shards = append(shards, s)
		}
	}
	q.mu.Unlock() // a shard waits for its listener, which may be waiting for q.mu
	var errs []error
	for _, s := range shards {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// retire closes a shard after a while. q.mu is held.
func (q *Queue) retire(s *Shard) {
	q.retired[s] = time.AfterFunc(retireAfter, func() {
		if err := s.close(); err != nil {
			q.opts.Logger.Warn("closing a shard that is no longer in use failed", "shard", s.name, "error", err)
		}
		q.mu.Lock()
		delete(q.retired, s)
		q.mu.Unlock()
	})
}

// SetShards makes the queue use these shards. It leaves out shards that it cannot open (with a wrong URL), and names
// them in the error.
func (q *Queue) SetShards(_ context.Context, configs []ShardConfig) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := map[string]*Shard{}
	for _, s := range *q.shards.Load() {
		old[s.name] = s
	}
	names := map[string]string{}
	for _, c := range configs {
		if c.Identity != "" {
			names[c.Identity] = c.Name
		}
	}
	q.names.Store(&names)
	list, takers := []*Shard{}, []*Shard{}
	var errs []error
	for _, c := range configs {
		if c.State == "offline" {
			continue
		}
		s := old[c.Name]
		if s == nil || !s.isOf(c) {
			var err error
			if s, err = openShard(c, q.opts, q.peers()); err != nil {
				errs = append(errs, err)
				continue
			}
			if q.opts.Announced != nil {
				s.start(func() { s.announcements(q.opts.Announced) })
				s.start(s.keepTopics)
			}
		} else {
			delete(old, c.Name)
		}
		s.setState(c.State)
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *Shard) int { return cmp.Compare(a.name, b.name) })
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
func (q *Queue) peers() Peers {
	return Peers{
		Names:  func() map[string]string { return *q.names.Load() },
		Takers: func() int { return len(*q.takers.Load()) },
		Resync: func(ctx context.Context, s *Shard) error { return q.syncTopics(ctx, nil, s) },
	}
}

// Shards returns the registry's shards that are not offline, by name.
func (q *Queue) Shards() []*Shard { return slices.Clone(*q.shards.Load()) }

// Ready returns nil when a push can be accepted now, otherwise the reason.
func (q *Queue) Ready() error {
	err := errors.New("no shard is active: register one, or set redis.nodes")
	for _, s := range *q.takers.Load() {
		if err = s.proven(); err == nil {
			return nil
		}
		err = fmt.Errorf("shard %s does not answer: %w", s.name, err)
	}
	return err
}
