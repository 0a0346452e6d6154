package queue

import (
	"context"
)

// findStep is how many topics one call of the script searches: well under a millisecond of Redis.
const findStep = 250

// Find looks for an id in topics. With a *PartialError the jobs are from the shards that answered.
func (q *Queue) Find(ctx context.Context, id string, topics []string) ([]*Job, error) {
	live, _, err := q.find(ctx, id, topics)
	return live, err
}

// FindAny is Find, but also returns a finished job for each topic that has no live job of the id.
func (q *Queue) FindAny(ctx context.Context, id string, topics []string) ([]*Job, error) {
	found, last, err := q.find(ctx, id, topics)
	for _, j := range found {
		delete(last, j.Topic)
	}
	for _, topic := range topics {
		if last[topic] != nil {
			found = append(found, last[topic])
		}
	}
	return found, err
}

// find returns the live jobs of an id in topics, and for each topic the one that finished last, over all shards. With a
// *PartialError the jobs are from the shards that answered.
func (q *Queue) find(ctx context.Context, id string, topics []string) (live []*Job, last map[string]*Job, err error) {
	last = map[string]*Job{}
	err = q.eachTopic(topics, findStep, func(s *Shard, bucket int, some []string) error {
		refs := make([]Ref, len(some))
		for i, topic := range some {
			refs[i] = Ref{topic, id}
		}
		jobs, _, err := s.readJobs(ctx, bucket, refs)
		for _, j := range jobs {
			switch {
			case j == nil:
			case j.State != Finished:
				live = append(live, j)
			case last[j.Topic] == nil || j.FinishedAt.After(last[j.Topic].FinishedAt):
				last[j.Topic] = j
			}
		}
		return err
	})
	return live, last, err
}
