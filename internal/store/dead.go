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
	IDs   []string // those of them that are dead; none: the oldest
	Limit int      // of the oldest
}

// DeadStep bounds the dead jobs of one script call.
const DeadStep = 200

const deadHead = 2 // length of the head of dead.lua's answer

// EndDead redrives or deletes dead jobs, in one call of the script. It returns them as the journal needs them.
func (b *Bucket) EndDead(ctx context.Context, c DeadCall) ([]Job, error) {
	what, limit, attempts, ttl := "retry", c.Limit, "", ""
	if len(c.IDs) > 0 {
		limit = 0
	}
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
	args := append([]any{c.Topic, what, limit, attempts, ttl}, Anys(c.IDs)...)
	reply, err := b.CallList(ctx, -1, deadScript, args...)
	if err != nil {
		return nil, err
	}
	if len(reply) < deadHead {
		return nil, fmt.Errorf("dead jobs of %s: %w", c.Topic, ErrReply)
	}
	var jobs []Job
	for i, v := range reply[deadHead:] {
		job, err := b.Described(c.Topic, v, micros(reply[0]))
		if err != nil {
			return nil, err
		}
		if job.Revision = Integer(reply[1]) + int64(i); c.Kind == DeadDeleted {
			job = &Job{
				Topic: c.Topic, ID: job.ID, Shard: job.Shard, CreatedAt: job.CreatedAt, Revision: job.Revision,
				Schedule: job.Schedule, For: job.For,
			}
		}
		jobs = append(jobs, *job)
	}
	return jobs, nil
}
