package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Renewal holds the attempts and the time to live that redriven jobs get.
type Renewal struct {
	MaxAttempts int           // 0: unchanged
	TTL         time.Duration // from now; 0: none
}

// DeadCall says what happens to dead jobs of a topic: they are Redriven, or DeadDeleted.
type DeadCall struct {
	Kind  ChangeKind
	Topic string
	As    *Renewal // of Redriven; nil: unchanged
}

// DeadStep bounds the dead jobs of one script call.
const DeadStep = 200

const deadHead = 2 // length of the head of dead.lua's answer

// EndDead re-drives or deletes dead jobs in one call of the script: those of the ids that are dead, or without ids the
// oldest, up to limit. It returns them as the journal needs them.
func (s *Shard) EndDead(ctx context.Context, c DeadCall, limit int, ids []string) ([]Job, error) {
	what, attempts, ttl := "retry", "", ""
	if c.Kind == DeadDeleted {
		what = "delete"
	}
	if c.As != nil {
		if c.As.TTL > 0 {
			ttl = msText(c.As.TTL)
		}
		if c.As.MaxAttempts > 0 {
			attempts = strconv.Itoa(c.As.MaxAttempts)
		}
	}
	args := append([]any{c.Topic, what, limit, attempts, ttl}, Anys(ids)...)
	reply, err := s.CallList(ctx, s.BucketOf(c.Topic), -1, deadScript, args...)
	if err != nil {
		return nil, err
	}
	if len(reply) < deadHead {
		return nil, fmt.Errorf("dead jobs of %s: %w", c.Topic, ErrReply)
	}
	var jobs []Job
	for i, v := range reply[deadHead:] {
		job, err := s.job(c.Topic, v, micros(reply[0]))
		if err != nil {
			return nil, err
		}
		if job.Revision = Integer(reply[1]) + int64(i); c.Kind == DeadDeleted {
			job = &Job{Topic: c.Topic, ID: job.ID, Shard: s.name, CreatedAt: job.CreatedAt, Revision: job.Revision}
		}
		jobs = append(jobs, *job)
	}
	return jobs, nil
}
