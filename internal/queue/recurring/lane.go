package recurring

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	clockFor   = 15 * time.Second       // for how long a reading of Redis's clock is used
	askAgain   = time.Second            // after a definition that differs, or a topic that takes no pushes
	minBackoff = 200 * time.Millisecond // after an error
	maxBackoff = 2 * time.Second
	idle       = time.Hour
	maxFires   = 100     // schedules of a call
	maxJobs    = 200     // of a call; those of one schedule may be more
	maxBytes   = 1 << 20 // of the bodies of a call, likewise
)

// lane has the schedules of one bucket. All its times are by the bucket's clock.
type lane struct {
	*Runner
	bucket    *store.Bucket
	clock     store.Clock
	schedules registry.Table[*registry.Schedule] // as of the last snapshot
	shards    []registry.Shard
	entries   map[string]*entry
	queue     byTime // of entries, by when they are next
	backoff   time.Duration
	astray    []*registry.Schedule // of shards that are no longer in use
	looked    time.Time            // when these were tried
	asked     time.Time            // when the registry was asked for its definitions
}

// entry is a schedule in a lane.
type entry struct {
	*registry.Schedule
	policy *schedule.Policy
	cursor time.Time // zero: it must be read
	at     time.Time // when something is to be done
	index  int       // in the queue
	other  time.Time // since when the shard has had another definition, or none; zero: it has this one
}

// watch pushes the occurrences of one bucket until ctx is done.
func (l *lane) watch(ctx context.Context) {
	sub := l.opts.Registry.Subscribe()
	defer sub.End()
	timer := time.NewTimer(0)
	defer timer.Stop()
	l.follow(l.opts.Registry.Snapshot())
	for {
		select {
		case <-ctx.Done():
			return
		case <-sub.Changed:
			_, s := sub.Topics()
			l.follow(s)
		case <-timer.C:
		}
		wait := l.step(ctx)
		if l.rehome(ctx); len(l.astray) > 0 {
			wait = min(wait, askAgain)
		}
		timer.Reset(wait)
	}
}

// follow takes the definitions of a snapshot.
func (l *lane) follow(s *registry.Snapshot) {
	if s.Schedules == l.schedules && slices.Equal(s.Shards, l.shards) {
		return
	}
	l.schedules, l.shards, l.astray = s.Schedules, s.Shards, nil
	for name, e := range l.entries {
		if now := s.Schedules.Get(name); now != e.Schedule {
			heap.Remove(&l.queue, e.index)
			delete(l.entries, name)
		}
	}
	for name, def := range s.Schedules.All() {
		if !inUse(s, def.Shard) {
			l.astray = append(l.astray, def)
		}
		if l.entries[name] != nil || bucketIn(l.opts.Queue, def) != l.bucket {
			continue
		}
		policy, err := def.Policy()
		if err != nil {
			l.opts.Logger.Error("stored schedule is invalid", "schedule", name, "error", err)
			continue
		}
		e := &entry{Schedule: def, policy: policy}
		l.entries[name] = e
		heap.Push(&l.queue, e)
	}
}

// step does what is due, and returns how long to wait until the next step.
func (l *lane) step(ctx context.Context) time.Duration {
	if len(l.queue) == 0 {
		return idle
	}
	if err := l.fireDue(ctx); err != nil {
		if ctx.Err() == nil {
			l.opts.Logger.Log(ctx, store.LevelOf(err), "cannot push occurrences of schedules; retrying",
				"shard", l.bucket.Name(), "bucket", l.bucket.Number(), "error", err)
		}
		l.backoff = min(max(2*l.backoff, minBackoff), maxBackoff)
		return l.backoff
	}
	l.backoff = 0
	if len(l.queue) == 0 {
		return idle
	}
	return min(clockFor, max(time.Millisecond, l.queue[0].at.Sub(l.clock.Least(time.Now()))))
}

// fireDue decides about all occurrences that have come.
func (l *lane) fireDue(ctx context.Context) error {
	if err := l.opts.Accepting(); err != nil {
		return err
	}
	if time.Since(l.clock.Answered()) >= clockFor {
		clock, err := l.bucket.Clock(ctx)
		if err != nil {
			return err
		}
		l.clock = clock
	}
	for ctx.Err() == nil {
		due, fires := l.takeDue()
		if len(due) == 0 {
			return nil
		}
		fired, clock, err := l.opts.Queue.Fire(ctx, l.bucket, fires)
		if !clock.Now.IsZero() {
			l.clock = clock
		}
		for i, e := range due {
			if fired != nil {
				l.metrics.observe(&fires[i], &fired[i], clock)
				l.fired(ctx, e, &fires[i], &fired[i])
				spend(ctx, l.opts.Queue, l.opts.Registry.Snapshot(), e.MadeBy, len(fires[i].Jobs))
			}
			heap.Push(&l.queue, e)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// takeDue takes schedules out of the queue for which a call is due, with what it should do.
func (l *lane) takeDue() (due []*entry, fires []store.Fire) {
	now := l.clock.Least(time.Now())
	for jobs, bytes := 0, 0; len(due) < maxFires && jobs < maxJobs && bytes < maxBytes; {
		if len(l.queue) == 0 || l.queue[0].at.After(now) {
			break
		}
		e := l.queue[0]
		f, at := e.fire(l.opts.Registry.Snapshot(), now)
		if f == nil {
			e.at = at
			heap.Fix(&l.queue, 0)
			continue
		}
		heap.Pop(&l.queue)
		due, fires = append(due, e), append(fires, *f)
		jobs, bytes = jobs+len(f.Jobs), bytes+len(f.Jobs)*len(e.Body)
	}
	return due, fires
}

// fire returns what is to be done about a schedule now; nil if that is nothing before a time.
func (e *entry) fire(s *registry.Snapshot, now time.Time) (f *store.Fire, next time.Time) {
	f = &store.Fire{Name: e.Name, Topic: e.Topic, Revision: e.Revision, Overlap: string(e.Overlap)}
	if e.cursor.IsZero() {
		return f, now
	}
	f.Cursor = e.cursor
	if end := e.PausedUntil.Add(-time.Millisecond); e.State == registry.TopicPaused {
		switch {
		case e.PausedUntil.IsZero():
			return nil, now.Add(idle)
		case e.PausedUntil.After(now):
			return nil, e.PausedUntil
		case end.After(e.cursor):
			f.New, f.Paused = end, e.policy.Rule.Count(e.cursor, end)
			return f, now
		}
	}
	topic := s.Topic(e.Topic)
	if blocked(topic) {
		return nil, now.Add(askAgain)
	}
	d := e.policy.Decide(e.cursor, now)
	if !d.Cursor.After(e.cursor) {
		return nil, e.next(now)
	}
	f.New, f.Late, f.Limit = d.Cursor, d.Late, d.Limit
	f.Jobs = counted(s, e.MadeBy, jobsOf(e.Schedule, topic, e.policy, d.Push))
	return f, now
}

// next returns when the next occurrence comes.
func (e *entry) next(now time.Time) time.Time {
	at, ok := e.policy.Rule.Next(e.cursor)
	if !ok {
		return now.Add(idle)
	}
	return at
}

// fired takes over what a call found or did.
func (l *lane) fired(ctx context.Context, e *entry, f *store.Fire, d *store.Fired) {
	switch d.What {
	case store.FiredOther, store.FiredNone:
		l.differs(ctx, e, d)
		return
	case store.FiredEarly:
		e.at = f.New
		return
	}
	e.other, e.cursor, e.at = time.Time{}, d.Cursor, l.clock.Now // fire says when it is next
	l.known.Store(e.Name, where{e.Revision, d.Cursor})
}

// byTime is a heap of entries by when they are next.
type byTime []*entry

func (q byTime) Len() int           { return len(q) }
func (q byTime) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q byTime) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push and Pop are for package heap.
func (q *byTime) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop removes the last entry.
func (q *byTime) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}
