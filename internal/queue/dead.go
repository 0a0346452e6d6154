package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// RedriveDead makes dead jobs of a topic, or of all topics of a namespace, ready again with attempts 0: the given ids,
// or without ids the oldest of each shard and topic, up to limit. It returns their number, and skips ids of jobs that
// are not dead.
func (q *Queue) RedriveDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	return q.dead(ctx, deadCall{kind: Redriven, topic: topic}, ids, limit)
}

// DeleteDead deletes dead jobs, chosen as in RedriveDead.
func (q *Queue) DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	return q.dead(ctx, deadCall{kind: DeadDeleted, topic: topic}, ids, limit)
}

// Renewal holds the attempts and the time to live that redriven jobs get.
type Renewal struct {
	MaxAttempts int           // 0: unchanged
	TTL         time.Duration // from now; 0: none
}

// RedriveAs redrives the oldest dead jobs, up to limit, with other attempts and another time to live.
func (q *Queue) RedriveAs(ctx context.Context, topic string, limit int, as Renewal) (int, error) {
	return q.dead(ctx, deadCall{kind: Redriven, topic: topic, as: &as}, nil, limit)
}

type deadCall struct {
	kind  ChangeKind
	topic string
	as    *Renewal
}

// deadStep bounds the dead jobs of one script call.
const deadStep = 200

func (q *Queue) dead(ctx context.Context, c deadCall, ids []string, limit int) (int, error) {
	members, err := q.membersOf(ctx, c.topic, Dead)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, c.topic = range members {
		for _, s := range *q.shards.Load() {
			var n int
			if len(ids) > 0 {
				n, err = q.deadIDs(ctx, s, c, ids)
			} else {
				n, err = q.deadOldest(ctx, s, c, limit-total)
			}
			total += n
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

func (q *Queue) deadOldest(ctx context.Context, s *Shard, c deadCall, limit int) (int, error) {
	total := 0
	for total < limit {
		n, err := q.someDead(ctx, s, c, min(deadStep, limit-total), nil)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

func (q *Queue) deadIDs(ctx context.Context, s *Shard, c deadCall, ids []string) (int, error) {
	total := 0
	for chunk := range slices.Chunk(ids, deadStep) {
		n, err := q.someDead(ctx, s, c, 0, chunk)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// someDead re-drives or deletes dead jobs in one call of the script and records that.
func (q *Queue) someDead(ctx context.Context, s *Shard, c deadCall, limit int, ids []string) (int, error) {
	kind, topic := c.kind, c.topic
	what := "retry"
	if kind == DeadDeleted {
		what = "delete"
	}
	attempts, ttl := "", ""
	if c.as != nil {
		ttl = strconv.FormatInt(c.as.TTL.Milliseconds(), 10)
		if c.as.MaxAttempts > 0 {
			attempts = strconv.Itoa(c.as.MaxAttempts)
		}
	}
	args := []any{topic, what, limit, attempts, ttl}
	for _, id := range ids {
		args = append(args, s.address(topic, id), id)
	}
	// Not repeated: after a lost answer the same call would take the next jobs, and nobody would record the first ones.
	v, err := s.run(ctx, s.bucketOf(topic), "dead", args...)
	if err != nil {
		return 0, err
	}
	reply, _ := v.([]any)
	if len(reply)%3 != 1 {
		return 0, fmt.Errorf("dead jobs of %s: %w", topic, errReply)
	}
	revision, _ := reply[0].(int64)
	var jobs []Job
	for v := range slices.Chunk(reply[1:], 3) {
		id, _ := v[0].(string)
		job := Job{Topic: topic, ID: id, Shard: s.name, CreatedAt: millis(v[1]), Revision: revision}
		revision++
		if whole, err := s.described(topic, v[2]); err == nil {
			whole.Revision = job.Revision
			job = *whole
		}
		jobs = append(jobs, job)
	}
	return len(jobs), q.record(ctx, kind, jobs...)
}
