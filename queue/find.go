package queue

import (
	"context"
	"fmt"
)

// findStep is how many topics one call of the script looks into: well under a millisecond of Redis.
const findStep = 250

// Find looks for an id in topics. With a *PartialError the jobs are those of the shards that answered.
func (q *Queue) Find(ctx context.Context, id string, topics []string) ([]*Job, error) {
	var found []*Job
	err := q.onEach(topics, findStep, func(s *Shard, bucket int, some []string) error {
		args := make([]any, 1, 1+2*len(some))
		args[0] = id
		for _, t := range some {
			args = append(args, t, s.address(t, id))
		}
		v, err := s.again(ctx, bucket, s.scripts.find, args...)
		if err != nil {
			return err
		}
		reply, ok := v.([]any)
		if !ok || len(reply)%2 != 1 {
			return fmt.Errorf("look for %s on shard %s: %w", id, s.name, errReply)
		}
		for i := 1; i < len(reply); i += 2 {
			k, _ := reply[i].(int64)
			if k < 1 || int(k) > len(some) {
				return fmt.Errorf("look for %s on shard %s: %w", id, s.name, errReply)
			}
			j, err := s.described(some[k-1], reply[i+1])
			if err != nil {
				return err
			}
			found = append(found, j)
		}
		return nil
	})
	return found, err
}
