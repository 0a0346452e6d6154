package queue

import (
	"context"
)

// restoreStep is the most jobs in one call of the restore script.
const restoreStep = 50

// moved records that jobs are now in another shard.
func (q *Queue) moved(ctx context.Context, s *Shard, list []*moving) error {
	jobs := make([]Job, len(list))
	for i, c := range list {
		jobs[i] = c.job
		jobs[i].Shard, jobs[i].Revision = s.name, c.revision
	}
	return q.record(ctx, MovedIn, jobs...)
}

// restore stores jobs of one bucket and sets their fields copied and revision.
func (s *Shard) restore(ctx context.Context, bucket int, jobs []*moving) error {
	args := make([]any, 0, 1+7*len(jobs))
	for _, c := range jobs {
		j := &c.job
		record, long := recordOf(j)
		args = append(args, j.Topic, s.address(j.Topic, j.ID), record, long, c.state, c.at, c.attempts)
	}
	reply, err := s.list(ctx, bucket, 1+len(jobs), "restore", args...)
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

// recordOf returns the record of a job, and its body if that gets a key of its own.
func recordOf(j *Job) (record, long []byte) {
	record = appendUint48(appendUint48(nil, max(0, j.DueAt.UnixMilli())), max(0, j.CreatedAt.UnixMilli()))
	return appendTail(record, j.push())
}
