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

const deadHead = 2 // length of the head of dead.lua's answer

// deadStep bounds the dead jobs of one script call.
const deadStep = 200

func (q *Queue) dead(ctx context.Context, c deadCall, ids []string, limit int) (int, error) {
	members, err := q.membersOf(ctx, c.topic, Dead)
	if err != nil {
		return 0, err
	}
	ended := map[string]bool{} // by topic and id, since a job on the move between two shards is in both
	for _, c.topic = range members {
		if len(ids) > 0 {
			err = q.deadIDs(ctx, c, ids, ended)
		} else {
			err = q.deadOldest(ctx, c, limit, ended)
		}
		if err != nil {
			return len(ended), err
		}
	}
	return len(ended), nil
}

func (q *Queue) deadOldest(ctx context.Context, c deadCall, limit int, ended map[string]bool) error {
	for _, s := range *q.shards.Load() {
		for len(ended) < limit {
			n, err := q.someDead(ctx, s, c, min(deadStep, limit-len(ended)), nil, ended)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

func (q *Queue) deadIDs(ctx context.Context, c deadCall, ids []string, ended map[string]bool) error {
	for chunk := range slices.Chunk(ids, deadStep) {
		chunk, err := q.deadEverywhere(ctx, c.topic, chunk)
		for _, s := range *q.shards.Load() {
			if err == nil && len(chunk) > 0 {
				_, err = q.someDead(ctx, s, c, 0, chunk, ended)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deadEverywhere returns the ids of jobs that have no copy in another state. A push that faults delayed may be stored
// in two shards: if only its dead copy were deleted, the other would still be called.
func (q *Queue) deadEverywhere(ctx context.Context, topic string, ids []string) ([]string, error) {
	shards := *q.shards.Load()
	if len(shards) < 2 {
		return ids, nil
	}
	refs, alive := make([]Ref, len(ids)), map[string]bool{}
	for i, id := range ids {
		refs[i] = Ref{topic, id}
	}
	for _, s := range shards {
		jobs, err := s.getLive(ctx, refs)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if j != nil && j.State != Dead {
				alive[j.ID] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return alive[id] }), nil
}

// someDead re-drives or deletes dead jobs in one call of the script, records that, and adds them to ended.
func (q *Queue) someDead(
	ctx context.Context, s *Shard, c deadCall, limit int, ids []string, ended map[string]bool,
) (int, error) {
	kind, topic := c.kind, c.topic
	what, attempts, ttl := "retry", "", ""
	if kind == DeadDeleted {
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
	args := append([]any{topic, what, limit, attempts, ttl}, anys(ids)...)
	o, err := s.Call(ctx, s.bucketOf(topic), deadScript, args...)
	if err != nil {
		return 0, err
	}
	reply := values(o.Value)
	if len(reply) < deadHead {
		return 0, fmt.Errorf("dead jobs of %s: %w", topic, errReply)
	}
	var jobs []Job
	for i, v := range reply[deadHead:] {
		job, err := s.job(topic, v, micros(reply[0]))
		if err != nil {
			return 0, err
		}
		if job.Revision = integer(reply[1]) + int64(i); kind == DeadDeleted {
			job = &Job{Topic: topic, ID: job.ID, Shard: s.name, CreatedAt: job.CreatedAt, Revision: job.Revision}
		}
		jobs = append(jobs, *job)
		ended[topic+"/"+job.ID] = true
	}
	return len(jobs), q.record(ctx, kind, jobs...)
}
