package queue

import (
	"context"
	"fmt"
	"time"
)

// Change edits a delayed or ready job. Errors: ErrNotFound, ErrRunning, ErrDead, ErrChanged, ErrTooFar,
// *UnavailableError. With an error for which Stored is true it also returns the changed job.
func (q *Queue) Change(ctx context.Context, topic, id string, c Change) (*Job, error) {
	what, err := c.args()
	if err != nil {
		return nil, fmt.Errorf("change %s/%s: %w", topic, id, err)
	}
	return q.change(ctx, Changed, topic, id, c.Match, what)
}

// RunNow makes a job due now; the attempts of a dead one start again. It does not touch a ready or running job. Errors:
// ErrNotFound, *UnavailableError.
func (q *Queue) RunNow(ctx context.Context, topic, id string) (*Job, error) {
	return q.RunIf(ctx, topic, id, nil)
}

// RunIf is RunNow under a condition. Errors: as RunNow, and ErrChanged.
func (q *Queue) RunIf(ctx context.Context, topic, id string, m Match) (*Job, error) {
	return q.change(ctx, MadeDue, topic, id, m, runArgs)
}

// change changes the first job of this id that it finds, and then any copies in other shards, which would otherwise be
// delivered unchanged: a push whose answer was lost may have left one. It ignores errors of the copies, since the job
// itself is changed. A shard that does not answer may have the job, so change then leaves the shards after it alone.
func (q *Queue) change(
	ctx context.Context, kind ChangeKind, topic, id string, m Match, what []any,
) (job *Job, err error) {
	var unsafe error
	missed := false
	err = q.search(topic, id, func(s *Shard) (bool, error) {
		if job != nil {
			if s.hasOther(ctx, topic, job) {
				_, _, _ = q.changeIn(ctx, s, kind, topic, id, nil, what)
			}
			return false, nil
		}
		if missed {
			return false, nil
		}
		var err error
		job, unsafe, err = q.changeIn(ctx, s, kind, topic, id, m, what)
		missed = err != nil
		return false, err
	})
	if job != nil {
		return job, unsafe
	}
	return nil, q.orAbsent(ctx, topic, id, err)
}

// hasOther reports whether the shard has another job of this job's id. A job with the same creation time is the same
// job, being moved between shards: if both were changed, neither would be removed (see Drain).
func (s *Shard) hasOther(ctx context.Context, topic string, job *Job) bool {
	found, err := s.get(ctx, topic, job.ID)
	return err == nil && found != nil && !found.CreatedAt.Equal(job.CreatedAt)
}

// runArgs are the arguments of change.lua that make a job due now.
var runArgs = []any{"run"}

// args returns the arguments of change.lua for an edit. Error: ErrTooFar.
func (c *Change) args() ([]any, error) {
	when := ""
	switch {
	case c.DueAt != nil:
		if time.Until(*c.DueAt) > MaxDelay {
			return nil, ErrTooFar
		}
		when = timeText(max(0, ceilMilli(*c.DueAt)), true)
	case c.Delay != nil:
		if *c.Delay > MaxDelay {
			return nil, ErrTooFar
		}
		when = timeText(max(0, ceilDelay(*c.Delay)), false)
	}
	priority, given := "", ""
	if c.Priority != nil {
		priority = c.Priority.String()
	}
	var body []byte
	if c.Body != nil {
		given, body = "1", *c.Body
	}
	return []any{"change", when, priority, given, body}, nil
}

// Results of change.lua other than a description.
const changedNone, changedRunning, changedOther = "none", "running", "other"

var changeErrors = map[string]error{
	changedRunning: ErrRunning, "dead": ErrDead, changedOther: ErrChanged,
}

// change changes a job as change.lua says; it returns a nil job when the shard has none of this id. unsafe says why no
// replica has confirmed the change, when the topic's durability requires one.
func (s *Shard) change(
	ctx context.Context, d Durability, topic, id string, m Match, what []any,
) (job *Job, unsafe, err error) {
	args := append([]any{topic, id, m.String()}, what...)
	o, err := s.CallDurably(ctx, s.bucketOf(topic), d, changeScript, args...)
	if err != nil {
		return nil, nil, err
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != 3 {
		return nil, nil, fmt.Errorf("change %s/%s: %w", topic, id, errReply)
	}
	result := text(reply[2]) // "" with a description
	switch refused := changeErrors[result]; {
	case o.Doubtful && (result == changedNone || result == changedRunning || result == changedOther):
		// The first call may have made it due, and it may have been reserved and delivered since.
		return nil, nil, s.unknown()
	case result == changedNone:
		return nil, nil, nil
	case refused != nil:
		return nil, nil, fmt.Errorf("change %s/%s: %w", topic, id, refused)
	}
	if o.Unsafe != nil {
		unsafe = s.notReplicated("change", topic, id, o.Unsafe)
	}
	if job, err = s.job(topic, reply[2], micros(reply[0])); err != nil {
		return nil, nil, err
	}
	job.ChangedAt, job.Revision = micros(reply[0]).Truncate(time.Millisecond), integer(reply[1])
	return job, unsafe, nil
}

// changeIn changes a job in one shard and records that.
func (q *Queue) changeIn(
	ctx context.Context, s *Shard, kind ChangeKind, topic, id string, m Match, what []any,
) (job *Job, unsafe, err error) {
	job, unsafe, err = s.change(ctx, q.durability(topic), topic, id, m, what)
	if err != nil || job == nil {
		return nil, nil, err
	}
	if err := q.record(ctx, kind, *job); err != nil {
		return nil, nil, err
	}
	return job, unsafe, nil
}
