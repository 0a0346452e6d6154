package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/store"
)

// A draining shard delivers jobs that are due, and its other jobs are moved to active shards. A job is first stored in
// the other shard, with its attempts and for the same time, and then removed here if nothing has happened to it
// meanwhile; otherwise the copy is removed. So the job always exists. It is not called twice, because only jobs are
// moved that neither shard would call before both steps are done; jobs that stay ready for long are postponed first.
// One process at a time moves jobs. A process that was suspended in the middle stores nothing afterwards, since a shard
// refuses copies that come late: their jobs may have been delivered. A job is called twice when the process ends
// between the two steps and no other takes over within store.MovePace.Ahead.

// Drain goes once through the topics of a shard, moves all jobs that can be moved, and returns their number. holder is
// the process's name; while another process moves jobs, Drain does nothing. Errors: *UnavailableError when a shard does
// not answer or no active one is up.
func (q *Queue) Drain(ctx context.Context, s *store.Shard, holder string) (moved int, err error) {
	m := &mover{queue: q, from: s, holder: holder}
	for _, b := range s.Buckets() {
		topics := map[string]store.Stats{}
		err := b.CountAll(ctx, "", "", topics)
		for topic, n := range topics {
			if err == nil && !store.IsNamespace(topic) {
				err = m.topic(ctx, b, topic, n)
			}
		}
		if err == nil {
			_, err = m.mayGoOn(ctx) // reports how many were moved
		}
		if err != nil {
			return m.moved, fmt.Errorf("move jobs out of shard %s: %w", s.Name(), err)
		}
	}
	return m.moved, nil
}

type mover struct {
	queue   *Queue
	from    *store.Shard
	holder  string
	moved   int
	counted int // how many of moved the shard has counted
}

// mayGoOn reports whether the shard is still draining and this process is the one that moves jobs now.
func (m *mover) mayGoOn(ctx context.Context) (bool, error) {
	may, err := mayMove(ctx, m.from, m.holder, m.moved-m.counted)
	m.counted = m.moved
	return may && m.from.State() != "active", err
}

func (m *mover) topic(ctx context.Context, b *store.Bucket, topic string, n store.Stats) error {
	if n.Ready > 0 {
		if ok, err := m.mayGoOn(ctx); err != nil || !ok {
			return err
		}
		if err := postpone(ctx, b, topic, m.queue.opts.Pace.Stuck, m.queue.opts.Pace.PutOff); err != nil {
			return err
		}
	}
	if n.Delayed+n.Ready > 0 {
		if err := m.all(ctx, b, topic, store.Delayed); err != nil {
			return err
		}
	}
	if n.Dead > 0 {
		return m.all(ctx, b, topic, store.Dead)
	}
	return nil
}

// all moves the jobs of a topic in a state. It pauses for as long as it works, so that it hardly slows down the shard.
func (m *mover) all(ctx context.Context, b *store.Bucket, topic string, state store.State) error {
	for cursor := ""; ; {
		ok, err := m.mayGoOn(ctx)
		if err != nil || !ok {
			return err
		}
		began := time.Now()
		jobs, next, err := b.List(ctx, topic, state, cursor, moveStep, "")
		if err != nil {
			return err
		}
		if err := m.some(ctx, began, b, topic, jobs); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		cursor = next
		if !pause.For(ctx, min(time.Since(began), time.Second)) {
			return ctx.Err()
		}
	}
}

// some moves those of the listed jobs that are due late enough.
func (m *mover) some(
	ctx context.Context, began time.Time, b *store.Bucket, topic string, listed []store.Job,
) error {
	list, err := readMoving(ctx, b, topic, listed, m.queue.opts.Pace.Ahead)
	if err != nil || len(list) == 0 {
		return err
	}
	byShard := map[*store.Shard][]*moving{}
	for _, c := range list {
		to, err := m.destination(&c.Job)
		if err != nil {
			return err
		}
		if to != nil {
			byShard[to] = append(byShard[to], c)
		}
	}
	for to, list := range byShard {
		for chunk := range slices.Chunk(list, restoreStep) {
			if err := m.move(ctx, began, b, to.BucketOf(topic), chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// destination returns where a job is moved: an occurrence to its schedule, another job to its home, or to the next
// shard if that is down. It returns nil when the job has to wait for its schedule.
func (m *mover) destination(j *store.Job) (*store.Shard, error) {
	order := m.queue.Shards.activeFor(j.Topic, homeOf(j.ID, j.Key))
	if j.Schedule != "" && m.queue.opts.ShardOf != nil {
		switch to := m.queue.Shards.Named(m.queue.opts.ShardOf(j.Schedule)); {
		case to == m.from:
			return nil, nil
		case slices.Contains(order, to):
			order = []*store.Shard{to}
		}
	}
	// The shard itself is in the list when it has become active again: a job moved there would be removed.
	i := slices.IndexFunc(order, func(s *store.Shard) bool { return s != m.from && s.Up() })
	if i < 0 {
		return nil, &store.UnavailableError{Reason: "down", Err: m.queue.noShard()}
	}
	return order[i], nil
}

// move stores jobs in another shard, records that, and removes them here; if a job cannot be removed here, it removes
// the copy. An error in between leaves jobs in both shards until the next call of Drain.
func (m *mover) move(ctx context.Context, began time.Time, from, to *store.Bucket, list []*moving) error {
	if err := copyTo(ctx, to, began.Add(m.queue.opts.Pace.Within), list); err != nil {
		return err
	}
	copied := slices.DeleteFunc(slices.Clone(list), func(c *moving) bool { return c.copied == 0 })
	others, err := othersOf(ctx, to.Shard(), list)
	if err == nil {
		err = m.queue.moved(ctx, to.Shard(), slices.Concat(copied, others))
	}
	if err == nil {
		err = m.replicated(ctx, to, list[0].Topic)
	}
	if err != nil {
		return errors.Join(err, m.undo(ctx, to, copied))
	}
	left, err := leave(ctx, from, list, func(c *moving) int64 { return c.read })
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
func (m *mover) undo(ctx context.Context, to *store.Bucket, copied []*moving) error {
	gone, err := leave(ctx, to, copied, (*moving).copyRevision)
	if err != nil {
		return err
	}
	return m.queue.left(ctx, to.Shard(), gone)
}

// replicated waits until a replica of the other shard has the copies, if the topic's durability requires it.
func (m *mover) replicated(ctx context.Context, to *store.Bucket, topic string) error {
	if m.queue.durability(topic) == store.Memory {
		return nil
	}
	if err := to.AwaitReplica(ctx); err != nil {
		return fmt.Errorf(
			"move jobs of %s, whose durability is %s, to shard %s: %w", topic, store.Replica, to.Shard().Name(), err)
	}
	return nil
}

// left records which jobs have left for another shard.
func (q *Queue) left(ctx context.Context, s *store.Shard, list []*moving) error {
	jobs := make([]store.Job, len(list))
	for i, c := range list {
		jobs[i] = store.Job{
			Topic: c.Topic, ID: c.ID, Shard: s.Name(), CreatedAt: c.CreatedAt, Revision: c.revision,
		}
	}
	return q.record(ctx, store.MovedOut, jobs...)
}

// moved records that jobs are now in another shard.
func (q *Queue) moved(ctx context.Context, s *store.Shard, list []*moving) error {
	jobs := make([]store.Job, len(list))
	for i, c := range list {
		jobs[i] = c.Job
		jobs[i].Shard, jobs[i].Revision = s.Name(), c.revision
	}
	return q.record(ctx, store.MovedIn, jobs...)
}
