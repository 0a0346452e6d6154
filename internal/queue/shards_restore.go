package queue

import (
	"context"
	"strconv"
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
	args := make([]any, 0, 6*len(jobs))
	for _, c := range jobs {
		j := &c.job
		record, long := recordOf(j)
		died := ""
		if j.State == Dead {
			died = strconv.FormatInt(j.DeadAt.UnixMilli(), 10)
		}
		args = appendAttempts(append(args, j.Topic, j.ID, record, long, died), j.History)
	}
	reply, err := s.CallList(ctx, bucket, len(jobs), restoreScript, args...)
	if err != nil {
		return err
	}
	for i, c := range jobs {
		c.copied = integer(reply[i])
		c.revision = max(c.copied, -c.copied)
	}
	return nil
}
