package queue

import (
	"context"
	"fmt"
)

// TakeByID takes a ready, delayed or dead job for a worker, regardless of its topic's limits. The attempts of a dead
// one start again. Errors: ErrNotFound, also for a running job, *UnavailableError.
func (q *Queue) TakeByID(ctx context.Context, topic, id string) (job *Job, err error) {
	token := newToken()
	err = q.search(topic, id, func(s *Shard) (bool, error) {
		job, err = s.takeByID(ctx, topic, id, token)
		return job != nil, err
	})
	if err != nil {
		return nil, q.orAbsent(ctx, topic, id, err)
	}
	if err := q.record(ctx, Redriven, *job); err != nil {
		q.End(ctx, Released([]Job{*job})) // otherwise its lease would expire, which counts an attempt
		return nil, err
	}
	return job, nil
}

const takenByIDHead = 2 // length of the head of takebyid.lua's answer

// takeByID returns nil when the shard has no such job that can be taken.
func (s *Shard) takeByID(ctx context.Context, topic, id, token string) (*Job, error) {
	v, err := s.CallList(ctx, s.bucketOf(topic), -1, takeByIDScript, topic, id, token)
	if err != nil || len(v) == takenByIDHead {
		return nil, err
	}
	if len(v) != takenByIDHead+reservedJob {
		return nil, fmt.Errorf("take %s/%s: %w", topic, id, errReply)
	}
	job := s.leased(v[takenByIDHead:], token, micros(v[0]))
	if job == nil {
		return nil, fmt.Errorf("take %s/%s: %w", topic, id, errRecord)
	}
	return job, nil
}
