package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// SetTopics sets the limits of all topics on every shard. all yields the current topics; the queue calls it again
// whenever a shard may have other limits, so a shard that is down or refuses writes gets them later. Each active shard
// gets its share of MaxInFlight, at least one, and of RateLimit, and enforces it exactly.
//
// Without all it sets the limits of topics that changed since. A process that never sets all leaves the other topics to
// one that does.
func (q *Queue) SetTopics(ctx context.Context, all iter.Seq[store.TopicConf], changed ...store.TopicConf) error {
	q.mu.Lock()
	if all != nil {
		q.topics = all
	}
	q.topicsVersion++
	q.mu.Unlock()
	return q.syncTopics(ctx, changed, (*q.Shards.all.Load())...)
}

// syncTopics updates shards to the current version of the topics' limits: with the topics that changed since the
// previous version, or with all.
func (q *Queue) syncTopics(ctx context.Context, changed []store.TopicConf, shards ...*store.Shard) error {
	q.mu.Lock()
	all, version := q.topics, q.topicsVersion
	q.mu.Unlock()
	if all == nil && changed == nil {
		return nil
	}
	var errs []error
	for _, s := range shards {
		if err := s.Configure(ctx, version, all, changed, len(*q.Shards.active.Load())); err != nil {
			errs = append(errs, fmt.Errorf("set the limits of topics: %w", err))
		}
	}
	return errors.Join(errs...)
}

// LimitBucket sets the limits of all topics of a bucket that is about to be opened and may have lost them.
func (q *Queue) LimitBucket(ctx context.Context, b *store.Bucket, all iter.Seq[store.TopicConf]) error {
	return b.SetTopics(ctx, all, len(*q.Shards.active.Load()))
}

// Stats counts the jobs of topics over all shards. With a *PartialError the numbers are those of the shards that
// answered.
func (q *Queue) Stats(ctx context.Context, topics []string) (map[string]store.Stats, error) {
	sum := make(map[string]store.Stats, len(topics))
	for _, t := range topics {
		sum[t] = store.Stats{}
	}
	err := q.Shards.EachTopic(topics, store.TopicStep, func(b *store.Bucket, some []string) error {
		return b.Stats(ctx, some, false, func(topic string, st store.Stats, _ any, _ time.Time) error {
			st.Add(sum[topic])
			sum[topic] = st
			return nil
		})
	})
	return sum, err
}

// Counts counts the jobs of all topics that have jobs, over all shards, and those of namespaces with settings. With a
// *PartialError the numbers are from the shards that answered.
func (q *Queue) Counts(ctx context.Context) (map[string]store.Stats, error) {
	sum := map[string]store.Stats{}
	err := q.Shards.EachBucket(func(b *store.Bucket) error { return b.CountAll(ctx, "", "", sum) })
	return sum, err
}

// Members lists the topics of a namespace that have jobs, by name. With a *PartialError they are from the shards that
// answered.
func (q *Queue) Members(ctx context.Context, namespace string) ([]string, error) {
	return q.members(ctx, namespace, "")
}

func (q *Queue) members(ctx context.Context, namespace string, state store.State) ([]string, error) {
	all := map[string]store.Stats{}
	err := q.Shards.EachBucket(func(b *store.Bucket) error {
		return b.CountAll(ctx, strings.TrimSuffix(namespace, "*"), state, all)
	})
	var list []string
	for topic, st := range all {
		if !store.IsNamespace(topic) && (state == "" || state == store.Finished || st.Of(state) > 0) {
			list = append(list, topic)
		}
	}
	slices.Sort(list)
	return list, err
}

// membersOf returns the topics that a name stands for: those of a namespace that have jobs in a state ("" for any), or
// the topic itself.
func (q *Queue) membersOf(ctx context.Context, topic string, state store.State) ([]string, error) {
	if !store.IsNamespace(topic) {
		return []string{topic}, nil
	}
	return q.members(ctx, topic, state)
}

// DropTopic deletes all jobs of a topic, or of all topics of a namespace, in steps, and returns their number. After it
// returns without an error, none of their callbacks starts; those that have started go on.
func (q *Queue) DropTopic(ctx context.Context, topic string) (int, error) {
	members, err := q.membersOf(ctx, topic, "")
	if err != nil {
		return 0, err
	}
	if store.IsNamespace(topic) { // the journal of an absent host may have jobs of topics that have none here
		if err := q.Shards.EachBucket(func(b *store.Bucket) error { return b.Awaits(ctx) }); err != nil {
			return 0, fmt.Errorf("delete the jobs of %s: %w", topic, err)
		}
	}
	total, longest := 0, time.Duration(0)
	for _, member := range members {
		n, window, err := q.dropTopic(ctx, member)
		total, longest = total+n, max(longest, window)
		if err != nil {
			return total, err
		}
	}
	return total, store.Outwait(ctx, longest)
}

// dropTopic deletes the jobs of one topic. window is for how long callbacks of those that were running, or may have
// been, may start.
func (q *Queue) dropTopic(ctx context.Context, topic string) (total int, window time.Duration, err error) {
	for _, s := range *q.Shards.all.Load() {
		b, running := s.BucketOf(topic), false
		err := b.Drop(ctx, topic, func(d store.DropReply) error {
			total, running = total+d.Deleted, running || d.Running
			if d.IsFirst {
				return q.record(ctx, store.Cleared, store.Job{Topic: topic, Shard: s.Name(), Revision: d.Revision})
			}
			return q.record(ctx, store.Deleted, d.Newer...)
		})
		if err != nil {
			return total, window, fmt.Errorf("delete the jobs of %s: %w", topic, err)
		}
		if running {
			window = max(window, b.StartWindow(ctx))
		}
	}
	return total, window, nil
}
