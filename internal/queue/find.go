package queue

import (
	"cmp"
	"context"
	"slices"
)

// refsOf names the jobs of one id in topics.
func refsOf(id string, topics []string) []Ref {
	refs := make([]Ref, len(topics))
	for i, topic := range topics {
		refs[i] = Ref{topic, id}
	}
	return refs
}

// findStep is how many topics one call of the script searches: well under a millisecond of Redis.
const findStep = 250

// Find looks for an id in topics. With a *PartialError the jobs are from the shards that answered.
func (q *Queue) Find(ctx context.Context, id string, topics []string) ([]*Job, error) {
	var found []*Job
	err := q.eachTopic(topics, findStep, func(s *Shard, bucket int, some []string) error {
		jobs, _, err := s.readJobs(ctx, bucket, live, refsOf(id, some))
		found = append(found, slices.DeleteFunc(jobs, func(j *Job) bool { return j == nil })...)
		return err
	})
	return found, err
}

// FindAny is Find, but also returns a finished job for each topic that has no live job of the id.
func (q *Queue) FindAny(ctx context.Context, id string, topics []string) ([]*Job, error) {
	found, missed := q.Find(ctx, id, topics)
	have := map[string]bool{}
	for _, j := range found {
		have[j.Topic] = true
	}
	rest := slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return have[topic] })
	last, err := q.lastFinished(ctx, id, rest)
	for _, topic := range rest {
		if last[topic] != nil {
			found = append(found, last[topic])
		}
	}
	return found, cmp.Or(missed, err)
}
