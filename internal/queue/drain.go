package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	for bucket := range s.Buckets() {
		topics := map[string]store.Stats{}
		err := s.CountAll(ctx, bucket, "", "", topics)
		for topic, n := range topics {
			if err == nil && !store.IsNamespace(topic) {
				err = m.topic(ctx, bucket, topic, n)
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
	may, err := m.from.MayMove(ctx, m.holder, m.moved-m.counted)
	m.counted = m.moved
	return may && m.from.State() != "active", err
}

func (m *mover) topic(ctx context.Context, bucket int, topic string, n store.Stats) error {
	if n.Ready > 0 {
		if ok, err := m.mayGoOn(ctx); err != nil || !ok {
			return err
		}
		if err := m.from.PutOff(ctx, bucket, topic, m.queue.opts.Pace.Stuck, m.queue.opts.Pace.PutOff); err != nil {
			return err
		}
	}
	if n.Delayed+n.Ready > 0 {
		if err := m.all(ctx, topic, store.Delayed); err != nil {
			return err
		}
	}
	if n.Dead > 0 {
		return m.all(ctx, topic, store.Dead)
	}
	return nil
}

// all moves the jobs of a topic in a state. It pauses for as long as it works, so that it hardly slows down the shard.
func (m *mover) all(ctx context.Context, topic string, state store.State) error {
	for cursor := ""; ; {
		ok, err := m.mayGoOn(ctx)
		if err != nil || !ok {
			return err
		}
		began := time.Now()
		jobs, next, err := m.from.ListStep(ctx, topic, state, cursor, store.MoveStep, "")
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
func (m *mover) some(ctx context.Context, began time.Time, topic string, listed []store.Job) error {
	cases, err := m.from.Cases(ctx, topic, listed, m.queue.opts.Pace.Ahead)
	if err != nil || len(cases) == 0 {
		return err
	}
	byShard := map[*store.Shard][]*store.Moving{}
	for _, c := range cases {
		order := m.queue.activeFor(topic, c.Job.ID)
		// The shard itself is in the list when it has become active again: a job moved there would be removed.
		i := slices.IndexFunc(order, func(s *store.Shard) bool { return s != m.from && s.Up() })
		if i < 0 {
			return &store.UnavailableError{Reason: "down", Err: m.queue.noShard()}
		}
		byShard[order[i]] = append(byShard[order[i]], c)
	}
	for to, list := range byShard {
		for chunk := range slices.Chunk(list, store.RestoreStep) {
			if err := m.move(ctx, began, to, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// move stores jobs in another shard, records that, and removes them here; if a job cannot be removed here, it removes
// the copy. An error in between leaves jobs in both shards until the next call of Drain.
func (m *mover) move(ctx context.Context, began time.Time, to *store.Shard, list []*store.Moving) error {
	if err := to.CopyOf(ctx, began.Add(m.queue.opts.Pace.Within), list); err != nil {
		return err
	}
	copied := slices.DeleteFunc(slices.Clone(list), func(c *store.Moving) bool { return c.Copied == 0 })
	others, err := to.Others(ctx, list)
	if err == nil {
		err = m.queue.moved(ctx, to, slices.Concat(copied, others))
	}
	if err == nil {
		err = m.replicated(ctx, to, list[0].Job.Topic)
	}
	if err != nil {
		return errors.Join(err, m.undo(ctx, to, copied))
	}
	left, err := m.from.Leave(ctx, list, func(c *store.Moving) int64 { return c.Read })
	if err != nil {
		return err
	}
	m.moved += len(left)
	if err := m.queue.left(ctx, m.from, left); err != nil {
		return err
	}
	stayed := slices.DeleteFunc(copied, func(c *store.Moving) bool { return slices.Contains(left, c) })
	return m.undo(ctx, to, stayed)
}

// undo removes copies.
func (m *mover) undo(ctx context.Context, to *store.Shard, copied []*store.Moving) error {
	gone, err := to.Leave(ctx, copied, func(c *store.Moving) int64 { return max(c.Copied, -c.Copied) })
	if err != nil {
		return err
	}
	return m.queue.left(ctx, to, gone)
}

// replicated waits until a replica of the other shard has the copies, if the topic's durability requires it.
func (m *mover) replicated(ctx context.Context, to *store.Shard, topic string) error {
	if m.queue.durability(topic) == store.Memory {
		return nil
	}
	if err := to.AwaitReplica(ctx, to.BucketOf(topic)); err != nil {
		return fmt.Errorf(
			"move jobs of %s, whose durability is %s, to shard %s: %w", topic, store.Replica, to.Name(), err)
	}
	return nil
}

// left records which jobs have left for another shard.
func (q *Queue) left(ctx context.Context, s *store.Shard, list []*store.Moving) error {
	jobs := make([]store.Job, len(list))
	for i, c := range list {
		jobs[i] = store.Job{
			Topic: c.Job.Topic, ID: c.Job.ID, Shard: s.Name(), CreatedAt: c.Job.CreatedAt, Revision: c.Revision,
		}
	}
	return q.record(ctx, store.MovedOut, jobs...)
}

// moved records that jobs are now in another shard.
func (q *Queue) moved(ctx context.Context, s *store.Shard, list []*store.Moving) error {
	jobs := make([]store.Job, len(list))
	for i, c := range list {
		jobs[i] = c.Job
		jobs[i].Shard, jobs[i].Revision = s.Name(), c.Revision
	}
	return q.record(ctx, store.MovedIn, jobs...)
}
