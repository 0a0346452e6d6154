package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// restoreStep is how many jobs one call of the restore script stores.
const restoreStep = 50

// Restore stores lost jobs as they were: Topic, ID, Shard, Body, ContentType, Priority, TTR, MaxAttempts, CreatedAt
// and DueAt, with no attempts made; of dead ones (State) also DeadAt, DeadReason, Attempts and History. Jobs whose
// ids exist are skipped. It returns how many were stored. A job whose own shard is not up goes to another one, and
// only then the change is recorded.
func (q *Queue) Restore(ctx context.Context, jobs []Job) (n int, err error) {
	type place struct {
		shard  *Shard
		bucket int
	}
	byPlace := map[place][]*moving{}
	for i := range jobs {
		j := &jobs[i]
		s := q.placeFor(j)
		if s == nil {
			return 0, &UnavailableError{Reason: "down", Err: q.noShard()}
		}
		c, err := asForgotten(j)
		if err != nil {
			return 0, err
		}
		p := place{s, s.bucketOf(j.Topic)}
		byPlace[p] = append(byPlace[p], c)
	}
	for p, list := range byPlace {
		for some := range slices.Chunk(list, restoreStep) {
			err := p.shard.restore(ctx, p.bucket, time.Time{}, some)
			for _, c := range some {
				if c.copied > 0 {
					n++
				}
			}
			if err == nil {
				atHome := func(c *moving) bool { return c.job.Shard == p.shard.name }
				err = q.moved(ctx, p.shard, slices.DeleteFunc(some, atHome))
			}
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func asForgotten(j *Job) (*moving, error) {
	c := &moving{job: *j, state: "d", at: max(0, j.DueAt.UnixMilli())}
	if j.State != Dead {
		return c, nil
	}
	attempts, err := encodeAttempts(j.Attempts, 0, j.DeadReason, j.History)
	if err != nil {
		return nil, fmt.Errorf("restore %s/%s: %w", j.Topic, j.ID, err)
	}
	c.state, c.at, c.attempts = "x", j.DeadAt.UnixMilli(), string(attempts)
	return c, nil
}

// placeFor is the shard that a job was in, or another one that is up; nil without any. A draining one takes it only
// when no other can.
func (q *Queue) placeFor(j *Job) *Shard {
	var own *Shard
	for _, s := range *q.shards.Load() {
		if s.name == j.Shard && s.Up() {
			own = s
		}
	}
	if own != nil && own.State() == "active" {
		return own
	}
	order := q.activeFor(j.Topic, j.ID)
	if i := slices.IndexFunc(order, (*Shard).Up); i >= 0 {
		return order[i]
	}
	return own
}

// moved records that jobs are in another shard now.
func (q *Queue) moved(ctx context.Context, s *Shard, list []*moving) error {
	jobs := make([]Job, len(list))
	for i, c := range list {
		jobs[i] = c.job
		jobs[i].Shard, jobs[i].Revision = s.name, c.revision
	}
	return q.record(ctx, MovedIn, jobs...)
}

// restore stores jobs of one bucket, not later than until by the shard's clock if that is given, and sets their
// references there.
func (s *Shard) restore(ctx context.Context, bucket int, until time.Time, jobs []*moving) error {
	args := make([]any, 1, 1+7*len(jobs))
	args[0] = 0
	if !until.IsZero() {
		args[0] = until.UnixMilli()
	}
	for _, c := range jobs {
		j := &c.job
		record, long := recordOf(j)
		args = append(args, j.Topic, s.address(j.Topic, j.ID), record, long, c.state, c.at, c.attempts)
	}
	reply, err := s.list(ctx, bucket, 1+len(jobs), "restore", args...)
	if err != nil && strings.Contains(err.Error(), "TOOLATE") {
		return s.unavailable("timeout", errTooLate)
	}
	if err != nil {
		return err
	}
	revision, _ := reply[0].(int64)
	for i, c := range jobs {
		c.copied, _ = reply[1+i].(int64)
		c.revision = revision + int64(i)
	}
	return nil
}

// recordOf is the record of a job, and its body when that gets a key of its own.
func recordOf(j *Job) (record, long []byte) {
	record = appendUint48(appendUint48(nil, max(0, j.DueAt.UnixMilli())), max(0, j.CreatedAt.UnixMilli()))
	return appendTail(record, &Push{
		ID: j.ID, Body: j.Body, ContentType: j.ContentType, Priority: j.Priority, TTR: j.TTR,
		MaxAttempts: j.MaxAttempts, ExpiresAt: j.ExpiresAt, Headers: j.Headers, Retry: j.Retry,
	})
}
