package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// MoveStep is how many jobs of a draining shard are read in one call.
const MoveStep = 100

// moverFor is how long a process may move jobs without renewal; longer than MovePace.Within.
const moverFor = 15 * time.Second

// MayMove makes this process the one that moves jobs out of the shard, unless another one is, and counts jobs that it
// has moved. It reports whether it may move more.
func (s *Shard) MayMove(ctx context.Context, holder string, moved int) (bool, error) {
	began, key, count := time.Now(), Prefix(0)+"mover", Prefix(0)+"moved"
	pipe := s.client.Pipeline()
	pipe.SetNX(ctx, key, holder, moverFor)
	holds := pipe.Get(ctx, key)
	if moved > 0 {
		pipe.IncrBy(ctx, count, int64(moved))
		pipe.Expire(ctx, count, time.Hour)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false, s.Failed(ctx, 0, began, err)
	}
	if holds.Val() != holder {
		return false, nil
	}
	renewed, err := s.client.PExpire(ctx, key, moverFor).Result()
	if err != nil {
		return false, s.Failed(ctx, 0, began, err)
	}
	return renewed, nil
}

// PutOff postpones jobs of a topic that have been ready for longer than stuck, so that they can be moved.
func (s *Shard) PutOff(ctx context.Context, bucket int, topic string, stuck, until time.Duration) error {
	_, err := s.Call(ctx, bucket, deferScript, topic, MoveStep, stuck.Milliseconds(), until.Milliseconds())
	return err
}

// RestoreStep is the most jobs in one call of the restore script.
const RestoreStep = 50

// restore stores jobs of one bucket and sets their fields copied and revision.
func (s *Shard) restore(ctx context.Context, bucket int, jobs []*Moving) error {
	args := make([]any, 0, 6*len(jobs))
	for _, c := range jobs {
		j := &c.Job
		record, long := RecordOf(j)
		died := ""
		if j.State == Dead {
			died = strconv.FormatInt(j.DeadAt.UnixMilli(), 10)
		}
		args = AppendAttempts(append(args, j.Topic, j.ID, record, long, died), j.History)
	}
	reply, err := s.CallList(ctx, bucket, len(jobs), restoreScript, args...)
	if err != nil {
		return err
	}
	for i, c := range jobs {
		c.Copied = Integer(reply[i])
		c.Revision = max(c.Copied, -c.Copied)
	}
	return nil
}

// Moving is a job that is being moved to another shard: as it was read, and its copy there.
type Moving struct {
	Job      Job
	Read     int64 // its revision as it was read
	Copied   int64 // its revision there; negative when it already existed; 0 when another job has its id there
	Revision int64 // of its copy there, and later of its removal here
}

// Cases reads whole jobs. It leaves out jobs that are due too soon or no longer exist.
func (s *Shard) Cases(ctx context.Context, topic string, listed []Job, ahead time.Duration) ([]*Moving, error) {
	if len(listed) == 0 {
		return nil, nil
	}
	refs := make([]Ref, len(listed))
	for i := range listed {
		refs[i] = Ref{topic, listed[i].ID}
	}
	jobs, now, err := s.ReadJobs(ctx, s.BucketOf(topic), refs)
	if err != nil && !errors.Is(err, errRecord) { // a damaged job stays: it cannot be stored elsewhere
		return nil, err
	}
	soon := now.Add(ahead)
	var list []*Moving
	for _, job := range jobs {
		if job != nil && (job.State == Dead || job.State == Delayed && !job.NextAt.Before(soon)) {
			list = append(list, &Moving{Job: *job, Read: job.Revision})
		}
	}
	return list, nil
}

// Others returns jobs with another creation time that have the ids of copies. A push whose answer was lost leaves such
// a job, and no journal has it.
func (s *Shard) Others(ctx context.Context, list []*Moving) (others []*Moving, err error) {
	in := slices.DeleteFunc(slices.Clone(list), func(c *Moving) bool { return c.Copied != 0 })
	refs := make([]Ref, len(in))
	for i, c := range in {
		refs[i] = Ref{c.Job.Topic, c.Job.ID}
	}
	jobs, err := s.GetLive(ctx, refs)
	for _, j := range jobs {
		if j != nil {
			others = append(others, &Moving{Job: *j, Revision: j.Revision})
		}
	}
	return others, err
}

// CopyOf stores jobs as they were read, unless it is too late.
func (s *Shard) CopyOf(ctx context.Context, until time.Time, list []*Moving) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if ctx.Err() != nil {
		return s.Unavailable("timeout", errTooLate)
	}
	return s.restore(ctx, s.BucketOf(list[0].Job.Topic), list)
}

// Leave removes those of the jobs, all of one topic, that are still as they were read, and returns them. revision
// returns a job's revision in this shard.
func (s *Shard) Leave(ctx context.Context, list []*Moving, revision func(*Moving) int64) (gone []*Moving, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 3*len(list))
	for _, c := range list {
		args = append(args, c.Job.Topic, c.Job.ID, revision(c))
	}
	o, err := s.Call(ctx, s.BucketOf(list[0].Job.Topic), leaveScript, args...)
	if err != nil {
		return nil, err
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != 1+len(list) {
		return nil, fmt.Errorf("remove %d jobs that were moved: %w", len(list), ErrReply)
	}
	for i, c := range list {
		if reply[1+i] == int64(1) {
			c.Revision = Integer(reply[0]) + int64(i)
			gone = append(gone, c)
		}
	}
	return gone, nil
}
