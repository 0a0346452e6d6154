package queue

import (
	"context"
)

// findStep is how many topics one call of the script searches: well under a millisecond of Redis.
const findStep = 250

// Find looks for an id in topics. With a *PartialError the jobs are those of the shards that answered.
func (q *Queue) Find(ctx context.Context, id string, topics []string) ([]*Job, error) {
	var found []*Job
	err := q.eachTopic(topics, findStep, func(s *Shard, bucket int, some []string) error {
		args := make([]any, 1, 1+2*len(some))
		args[0] = id
		for _, t := range some {
			args = append(args, t, s.address(t, id))
		}
		reply, err := s.list(ctx, bucket, 1+len(some), "find", args...)
		if err != nil {
			return err
		}
		for i, topic := range some {
			if reply[1+i] == "" {
				continue
			}
			j, err := s.described(topic, reply[1+i])
			if err != nil {
				return err
			}
			found = append(found, j)
		}
		return nil
	})
	return found, err
}
