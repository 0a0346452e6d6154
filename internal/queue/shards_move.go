package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A draining shard delivers jobs that are due, and its other jobs are moved to active shards. A job is first stored in
// the other shard, with its attempts and for the same time, and then removed here if nothing has happened to it
// meanwhile; otherwise the copy is removed. So the job always exists. It is not called twice, because only jobs are
// moved that neither shard would call before both steps are done; jobs that stay ready for long are postponed first.
// One process at a time moves jobs. A process that was suspended in the middle stores nothing afterwards, since a shard
// refuses copies that come late: their jobs may have been delivered. A job is called twice when the process ends
// between the two steps and no other takes over within MovePace.Ahead.

// MovePace holds the limits of time for moving.
type MovePace struct {
	Ahead  time.Duration // only jobs that are due later than this are moved
	Within time.Duration // a copy that comes later is refused; half of Ahead
	PutOff time.Duration // how long a stuck job is postponed; more than Ahead
	Stuck  time.Duration // a ready job is stuck when no dispatcher has taken it for so long
}

// DefaultPace moves jobs as production does.
var DefaultPace = MovePace{
	Ahead: 10 * time.Second, Within: 5 * time.Second, PutOff: 20 * time.Second, Stuck: 30 * time.Second,
}

// Drain goes once through the topics of a shard, moves all jobs that can be moved, and returns their number. holder is
// the process's name; while another process moves jobs, Drain does nothing. Errors: *UnavailableError when a shard does
// not answer or no active one is up.
func (q *Queue) Drain(ctx context.Context, s *Shard, holder string) (moved int, err error) {
	m := &mover{queue: q, from: s, holder: holder}
	for bucket := range s.Buckets() {
		topics := map[string]Stats{}
		err := s.countAll(ctx, bucket, "", "", topics)
		for topic, n := range topics {
			if err == nil && !isNamespace(topic) {
				err = m.topic(ctx, bucket, topic, n)
			}
		}
		if err == nil {
			_, err = m.mayGoOn(ctx) // reports how many were moved
		}
		if err != nil {
			return m.moved, fmt.Errorf("move jobs out of shard %s: %w", s.name, err)
		}
	}
	return m.moved, nil
}

type mover struct {
	queue   *Queue
	from    *Shard
	holder  string
	moved   int
	counted int // how many of moved the shard has counted
}

// mayGoOn reports whether the shard is still draining and this process is the one that moves jobs now.
func (m *mover) mayGoOn(ctx context.Context) (bool, error) {
	may, err := m.from.mayMove(ctx, m.holder, m.moved-m.counted)
	m.counted = m.moved
	return may && m.from.State() != "active", err
}

func (m *mover) topic(ctx context.Context, bucket int, topic string, n Stats) error {
	if n.Ready > 0 {
		if ok, err := m.mayGoOn(ctx); err != nil || !ok {
			return err
		}
		if err := m.from.putOff(ctx, bucket, topic, m.queue.opts.Pace.Stuck, m.queue.opts.Pace.PutOff); err != nil {
			return err
		}
	}
	if n.Delayed+n.Ready > 0 {
		if err := m.all(ctx, topic, Delayed); err != nil {
			return err
		}
	}
	if n.Dead > 0 {
		return m.all(ctx, topic, Dead)
	}
	return nil
}

// all moves the jobs of a topic in a state. It pauses for as long as it works, so that it hardly slows down the shard.
func (m *mover) all(ctx context.Context, topic string, state State) error {
	for cursor := ""; ; {
		ok, err := m.mayGoOn(ctx)
		if err != nil || !ok {
			return err
		}
		began := time.Now()
		jobs, next, err := m.from.listStep(ctx, topic, state, cursor, moveStep, "")
		if err != nil {
			return err
		}
		if err := m.some(ctx, began, topic, jobs); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		cursor = next
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Since(began), time.Second)):
		}
	}
}

// some moves those of the listed jobs that are due late enough.
func (m *mover) some(ctx context.Context, began time.Time, topic string, listed []Job) error {
	cases, err := m.from.cases(ctx, topic, listed, m.queue.opts.Pace.Ahead)
	if err != nil || len(cases) == 0 {
		return err
	}
	byShard := map[*Shard][]*moving{}
	for _, c := range cases {
		order := m.queue.activeFor(topic, c.job.ID)
		// The shard itself is in the list when it has become active again: a job moved there would be removed.
		i := slices.IndexFunc(order, func(s *Shard) bool { return s != m.from && s.Up() })
		if i < 0 {
			return &UnavailableError{Reason: "down", Err: m.queue.noShard()}
		}
		byShard[order[i]] = append(byShard[order[i]], c)
	}
	for to, list := range byShard {
		for chunk := range slices.Chunk(list, restoreStep) {
			if err := m.move(ctx, began, to, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// move stores jobs in another shard, records that, and removes them here; if a job cannot be removed here, it removes
// the copy. An error in between leaves jobs in both shards until the next call of Drain.
func (m *mover) move(ctx context.Context, began time.Time, to *Shard, list []*moving) error {
	if err := to.copyOf(ctx, began.Add(m.queue.opts.Pace.Within), list); err != nil {
		return err
	}
	copied := slices.DeleteFunc(slices.Clone(list), func(c *moving) bool { return c.copied == 0 })
	others, err := to.others(ctx, list)
	if err == nil {
		err = m.queue.moved(ctx, to, slices.Concat(copied, others))
	}
	if err == nil {
		err = m.replicated(ctx, to, list[0].job.Topic)
	}
	if err != nil {
		return errors.Join(err, m.undo(ctx, to, copied))
	}
	left, err := m.from.leave(ctx, list, func(c *moving) int64 { return c.read })
	if err != nil {
		return err
	}
	m.moved += len(left)
	if err := m.queue.left(ctx, m.from, left); err != nil {
		return err
	}
	stayed := slices.DeleteFunc(copied, func(c *moving) bool { return slices.Contains(left, c) })
	return m.undo(ctx, to, stayed)
}

// undo removes copies.
func (m *mover) undo(ctx context.Context, to *Shard, copied []*moving) error {
	gone, err := to.leave(ctx, copied, func(c *moving) int64 { return max(c.copied, -c.copied) })
	if err != nil {
		return err
	}
	return m.queue.left(ctx, to, gone)
}

// replicated waits until a replica of the other shard has the copies, if the topic's durability requires it.
func (m *mover) replicated(ctx context.Context, to *Shard, topic string) error {
	if m.queue.durability(topic) == Memory {
		return nil
	}
	if err := to.awaitReplica(ctx, to.bucketOf(topic)); err != nil {
		return fmt.Errorf("move jobs of %s, whose durability is %s, to shard %s: %w", topic, Replica, to.name, err)
	}
	return nil
}

// left records which jobs have left for another shard.
func (q *Queue) left(ctx context.Context, s *Shard, list []*moving) error {
	jobs := make([]Job, len(list))
	for i, c := range list {
		jobs[i] = Job{Topic: c.job.Topic, ID: c.job.ID, Shard: s.name, CreatedAt: c.job.CreatedAt, Revision: c.revision}
	}
	return q.record(ctx, MovedOut, jobs...)
}

// moved records that jobs are now in another shard.
func (q *Queue) moved(ctx context.Context, s *Shard, list []*moving) error {
	jobs := make([]Job, len(list))
	for i, c := range list {
		jobs[i] = c.job
		jobs[i].Shard, jobs[i].Revision = s.name, c.revision
	}
	return q.record(ctx, MovedIn, jobs...)
}
