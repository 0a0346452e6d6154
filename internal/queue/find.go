package queue

import (
	"context"

	"github.com/wakecall/wakecall/internal/store"
)

// findStep is how many topics one call of the script searches: well under a millisecond of Redis.
const findStep = 250

// Find returns the jobs with an id in topics, over all shards: the live ones, and then, for each other topic, the one
// that finished last. With a *PartialError the jobs are from the shards that answered.
func (q *Queue) Find(ctx context.Context, id string, topics []string) (found []*store.Job, err error) {
	live, finished := map[string]bool{}, map[string]*store.Job{}
	err = q.EachTopic(topics, findStep, func(s *store.Shard, bucket int, some []string) error {
		refs := make([]store.Ref, len(some))
		for i, topic := range some {
			refs[i] = store.Ref{Topic: topic, ID: id}
		}
		jobs, _, err := s.ReadJobs(ctx, bucket, refs)
		for _, j := range jobs {
			switch {
			case j == nil:
			case j.State != store.Finished:
				found, live[j.Topic] = append(found, j), true
			case finished[j.Topic] == nil || j.FinishedAt.After(finished[j.Topic].FinishedAt):
				finished[j.Topic] = j
			}
		}
		return err
	})
	for _, topic := range topics {
		if j := finished[topic]; j != nil && !live[topic] {
			found = append(found, j)
		}
	}
	return found, err
}
