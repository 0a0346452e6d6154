package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// The steps of moving jobs from one shard to another, see drain.go.

// moveStep is how many jobs of a draining shard are read in one call.
const moveStep = 100

// moverFor is how long a process may move jobs without renewal; longer than store.MovePace.Within.
const moverFor = 15 * time.Second

// mayMove makes this process the one that moves jobs out of a shard, unless another one is, and counts jobs that it has
// moved. It reports whether it may move more.
func mayMove(ctx context.Context, s *store.Shard, holder string, moved int) (bool, error) {
	reply, err := s.Buckets()[0].Call(ctx, moverScript, holder, moverFor.Milliseconds(), moved)
	return reply.Value == int64(1), err
}

// postpone postpones jobs of a topic that have been ready for longer than stuck, so that they can be moved.
func postpone(ctx context.Context, b *store.Bucket, topic string, stuck, until time.Duration) error {
	_, err := b.Call(ctx, deferScript, topic, moveStep, stuck.Milliseconds(), until.Milliseconds())
	return err
}

// moving is a job that is being moved to another shard: as it was read, and its copy there.
type moving struct {
	store.Job
	read     int64 // its revision as it was read
	copied   int64 // its revision there; negative when it already existed; 0 when another job has its id there
	revision int64 // of its copy there, and later of its removal here
}

// readMoving reads jobs whole. It leaves out jobs that are due too soon or no longer exist.
func readMoving(
	ctx context.Context, b *store.Bucket, topic string, listed []store.Job, ahead time.Duration,
) ([]*moving, error) {
	if len(listed) == 0 {
		return nil, nil
	}
	refs := make([]store.Ref, len(listed))
	for i := range listed {
		refs[i] = store.Ref{Topic: topic, ID: listed[i].ID}
	}
	jobs, now, err := b.Read(ctx, refs)
	if err != nil && !errors.Is(err, store.ErrRecord) { // a damaged job stays: it cannot be stored elsewhere
		return nil, err
	}
	soon := now.Add(ahead)
	var list []*moving
	for _, job := range jobs {
		if job != nil && (job.State == store.Dead || job.State == store.Delayed && !job.NextAt.Before(soon)) {
			list = append(list, &moving{Job: *job, read: job.Revision})
		}
	}
	return list, nil
}

// restoreStep is the most jobs in one call of the restore script.
const restoreStep = 50

// copyTo stores jobs of a topic in another shard's bucket as they were read, unless it is too late.
func copyTo(ctx context.Context, b *store.Bucket, until time.Time, list []*moving) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if ctx.Err() != nil {
		return b.Unavailable("timeout", store.ErrTooLate)
	}
	args := make([]any, 0, 6*len(list))
	for _, m := range list {
		record, long := store.RecordOf(&m.Job)
		died := ""
		if m.State == store.Dead {
			died = strconv.FormatInt(m.DeadAt.UnixMilli(), 10)
		}
		args = store.AppendAttempts(append(args, m.Topic, m.ID, record, long, died), m.History)
	}
	reply, err := b.CallList(ctx, len(list), restoreScript, args...)
	if err != nil {
		return err
	}
	for i, m := range list {
		m.copied = store.Integer(reply[i])
		m.revision = m.copyRevision()
	}
	return nil
}

// copyRevision returns the revision of the job in the other shard.
func (m *moving) copyRevision() int64 { return max(m.copied, -m.copied) }

// othersOf returns the jobs of a shard with another creation time that have the ids of copies. A push whose answer was
// lost leaves such a job, and no journal has it.
func othersOf(ctx context.Context, s *store.Shard, list []*moving) (others []*moving, err error) {
	in := slices.DeleteFunc(slices.Clone(list), func(m *moving) bool { return m.copied != 0 })
	refs := make([]store.Ref, len(in))
	for i, m := range in {
		refs[i] = store.Ref{Topic: m.Topic, ID: m.ID}
	}
	jobs, err := store.Live(s.Read(ctx, refs))
	for _, j := range jobs {
		if j != nil {
			others = append(others, &moving{Job: *j, revision: j.Revision})
		}
	}
	return others, err
}

// leave removes those of the jobs, all of one topic, that are still at their revision in this bucket, and returns them.
func leave(
	ctx context.Context, b *store.Bucket, list []*moving, revision func(*moving) int64,
) (gone []*moving, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 3*len(list))
	for _, m := range list {
		args = append(args, m.Topic, m.ID, revision(m))
	}
	reply, err := b.CallList(ctx, 1+len(list), leaveScript, args...)
	if err != nil {
		return nil, fmt.Errorf("remove %d jobs that were moved: %w", len(list), err)
	}
	for i, m := range list {
		if reply[1+i] == int64(1) {
			m.revision = store.Integer(reply[0]) + int64(i)
			gone = append(gone, m)
		}
	}
	return gone, nil
}
