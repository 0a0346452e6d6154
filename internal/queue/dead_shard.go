package queue

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

// deadCall says what happens to dead jobs of a topic: they are Redriven, or DeadDeleted.
type deadCall struct {
	kind  ChangeKind
	topic string
	as    *Renewal // of Redriven; nil: unchanged
}

// deadStep bounds the dead jobs of one script call.
const deadStep = 200

const deadHead = 2 // length of the head of dead.lua's answer

// endDead re-drives or deletes dead jobs in one call of the script: those of the ids that are dead, or without ids the
// oldest, up to limit. It returns them as the journal needs them.
func (s *Shard) endDead(ctx context.Context, c deadCall, limit int, ids []string) ([]Job, error) {
	what, attempts, ttl := "retry", "", ""
	if c.kind == DeadDeleted {
		what = "delete"
	}
	if c.as != nil {
		if c.as.TTL > 0 {
			ttl = msText(c.as.TTL)
		}
		if c.as.MaxAttempts > 0 {
			attempts = strconv.Itoa(c.as.MaxAttempts)
		}
	}
	args := append([]any{c.topic, what, limit, attempts, ttl}, anys(ids)...)
	reply, err := s.CallList(ctx, s.bucketOf(c.topic), -1, deadScript, args...)
	if err != nil {
		return nil, err
	}
	if len(reply) < deadHead {
		return nil, fmt.Errorf("dead jobs of %s: %w", c.topic, errReply)
	}
	var jobs []Job
	for i, v := range reply[deadHead:] {
		job, err := s.job(c.topic, v, micros(reply[0]))
		if err != nil {
			return nil, err
		}
		if job.Revision = integer(reply[1]) + int64(i); c.kind == DeadDeleted {
			job = &Job{Topic: c.topic, ID: job.ID, Shard: s.name, CreatedAt: job.CreatedAt, Revision: job.Revision}
		}
		jobs = append(jobs, *job)
	}
	return jobs, nil
}
