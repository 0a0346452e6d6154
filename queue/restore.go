package queue

import (
	"context"
	"fmt"
	"slices"
)

// restoreStep is how many jobs one call of the restore script stores.
const restoreStep = 50

// Restore stores jobs that were forgotten, as they were: Topic, ID, Shard, Body, ContentType, Priority, TTR, MaxAttempts, CreatedAt and DueAt, with no
// attempts made; of dead ones (State) also DeadAt, DeadReason, Attempts and History. Those whose id lives are passed over. It returns how
// many were stored. A job whose own shard is not up goes to another one, and only then Options.Accepted is called.
func (q *Queue) Restore(ctx context.Context, jobs []Job) (n int, err error) {
	type place struct {
		shard  *Shard
		bucket int
	}
	byPlace := map[place][]*Job{}
	for i := range jobs {
		j := &jobs[i]
		s := q.placeFor(j)
		if s == nil {
			return 0, &UnavailableError{Reason: "down", Err: q.noShard()}
		}
		p := place{s, s.bucketOf(j.Topic)}
		byPlace[p] = append(byPlace[p], j)
	}
	for p, list := range byPlace {
		for some := range slices.Chunk(list, restoreStep) {
			stored, err := p.shard.restore(ctx, p.bucket, some)
			n += stored
			if err == nil {
				err = q.moved(p.shard, some)
			}
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// placeFor is the shard that a job was in, or another one that is up; nil without any.
func (q *Queue) placeFor(j *Job) *Shard {
	for _, s := range *q.shards.Load() {
		if s.name == j.Shard && s.Up() {
			return s
		}
	}
	order := q.active(j.Topic, j.ID)
	if i := slices.IndexFunc(order, (*Shard).Up); i >= 0 {
		return order[i]
	}
	return nil
}

// moved has it recorded which jobs are in another shard now.
func (q *Queue) moved(s *Shard, jobs []*Job) error {
	var pushes []Push
	var results []Result
	for _, j := range jobs {
		if j.Shard == s.name {
			continue
		}
		now := *j
		now.Shard = s.name
		pushes = append(pushes, Push{Topic: j.Topic, ID: j.ID, Body: j.Body, ContentType: j.ContentType, DueAt: j.DueAt, Priority: j.Priority, TTR: j.TTR,
			MaxAttempts: j.MaxAttempts})
		results = append(results, Result{Job: now})
	}
	if len(pushes) == 0 || q.opts.Accepted == nil {
		return nil
	}
	return q.opts.Accepted(pushes, results)
}

func (s *Shard) restore(ctx context.Context, bucket int, jobs []*Job) (int, error) {
	args := make([]any, 0, 6*len(jobs))
	for _, j := range jobs {
		l := locate(j.Topic, j.ID, s.locators)
		rest, long := tail(&Push{ID: j.ID, Body: j.Body, ContentType: j.ContentType, Priority: j.Priority, TTR: j.TTR, MaxAttempts: j.MaxAttempts})
		record := appendUint48(appendUint48(make([]byte, 0, 12+len(rest)), max(0, j.DueAt.UnixMilli())), max(0, j.CreatedAt.UnixMilli()))
		died, attempts := int64(0), []byte{}
		if j.State == Dead {
			var err error
			died = j.DeadAt.UnixMilli()
			if attempts, err = encodeMade(j.Attempts, 0, j.DeadReason, j.History); err != nil {
				return 0, fmt.Errorf("restore %s/%s: %w", j.Topic, j.ID, err)
			}
		}
		args = append(args, j.Topic, l[:], append(record, rest...), long, died, attempts)
	}
	v, err := s.again(ctx, bucket, s.scripts.restore, args...)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("restore %d jobs: %w", len(jobs), errReply)
	}
	return int(n), nil
}
