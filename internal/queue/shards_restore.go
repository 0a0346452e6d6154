package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// moveStep is how many jobs of a draining shard are read in one call.
const moveStep = 100

// moverFor is how long a process may move jobs without renewal; longer than MovePace.Within.
const moverFor = 15 * time.Second

// mayMove makes this process the one that moves jobs out of the shard, unless another one is, and counts jobs that it
// has moved. It reports whether it may move more.
func (s *Shard) mayMove(ctx context.Context, holder string, moved int) (bool, error) {
	reply, err := s.Call(ctx, 0, moverScript, holder, moverFor.Milliseconds(), moved)
	return reply.Value == int64(1), err
}

// putOff postpones ready jobs of a topic that no dispatcher has taken for so long as stuck, so that they can be moved.
func (s *Shard) putOff(ctx context.Context, bucket int, topic string, stuck, until time.Duration) error {
	_, err := s.Call(ctx, bucket, deferScript, topic, moveStep, stuck.Milliseconds(), until.Milliseconds())
	return err
}

// restoreStep is the most jobs in one call of the restore script.
const restoreStep = 50

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

// moving is a job that is being moved to another shard: as it was read, and its copy there.
type moving struct {
	job      Job
	read     int64 // its revision as it was read
	copied   int64 // its revision there; negative when it already existed; 0 when another job has its id there
	revision int64 // of its copy there, and later of its removal here
}

// cases reads whole jobs. It leaves out jobs that are due too soon or no longer exist.
func (s *Shard) cases(ctx context.Context, topic string, listed []Job, ahead time.Duration) ([]*moving, error) {
	if len(listed) == 0 {
		return nil, nil
	}
	refs := make([]Ref, len(listed))
	for i := range listed {
		refs[i] = Ref{topic, listed[i].ID}
	}
	jobs, now, err := s.readJobs(ctx, s.bucketOf(topic), refs)
	if err != nil && !errors.Is(err, errRecord) { // a damaged job stays: it cannot be stored elsewhere
		return nil, err
	}
	soon := now.Add(ahead)
	var list []*moving
	for _, job := range jobs {
		if job != nil && (job.State == Dead || job.State == Delayed && !job.NextAt.Before(soon)) {
			list = append(list, &moving{job: *job, read: job.Revision})
		}
	}
	return list, nil
}

// others returns jobs with another creation time that have the ids of copies. A push whose answer was lost leaves such
// a job, and no journal has it.
func (s *Shard) others(ctx context.Context, list []*moving) (others []*moving, err error) {
	in := slices.DeleteFunc(slices.Clone(list), func(c *moving) bool { return c.copied != 0 })
	refs := make([]Ref, len(in))
	for i, c := range in {
		refs[i] = Ref{c.job.Topic, c.job.ID}
	}
	jobs, err := s.getLive(ctx, refs)
	for _, j := range jobs {
		if j != nil {
			others = append(others, &moving{job: *j, revision: j.Revision})
		}
	}
	return others, err
}

// copyOf stores jobs as they were read, unless it is too late.
func (s *Shard) copyOf(ctx context.Context, until time.Time, list []*moving) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if ctx.Err() != nil {
		return s.unavailable("timeout", errTooLate)
	}
	return s.restore(ctx, s.bucketOf(list[0].job.Topic), list)
}

// leave removes those of the jobs, all of one topic, that are still as they were read, and returns them. revision
// returns a job's revision in this shard.
func (s *Shard) leave(ctx context.Context, list []*moving, revision func(*moving) int64) (gone []*moving, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 3*len(list))
	for _, c := range list {
		args = append(args, c.job.Topic, c.job.ID, revision(c))
	}
	o, err := s.Call(ctx, s.bucketOf(list[0].job.Topic), leaveScript, args...)
	if err != nil {
		return nil, err
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != 1+len(list) {
		return nil, fmt.Errorf("remove %d jobs that were moved: %w", len(list), errReply)
	}
	for i, c := range list {
		if reply[1+i] == int64(1) {
			c.revision = integer(reply[0]) + int64(i)
			gone = append(gone, c)
		}
	}
	return gone, nil
}
