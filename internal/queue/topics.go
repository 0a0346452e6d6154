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
		err := drop(ctx, b, topic, func(d dropped) error {
			total, running = total+d.deleted, running || d.running
			if d.first {
				return q.record(ctx, store.Cleared, store.Job{Topic: topic, Shard: s.Name(), Revision: d.revision})
			}
			return q.record(ctx, store.Deleted, d.newer...)
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

const dropStep = 200 // jobs in one call of the script

// dropped says what one step of deleting a topic's jobs did.
type dropped struct {
	first    bool
	deleted  int
	running  bool        // a deleted job was running, or may have been
	revision int64       // of the deletion
	newer    []store.Job // deleted jobs that are newer than the first step
}

// drop deletes the jobs of a topic in one bucket, and calls did for each step. When the reply of a later step was lost,
// it begins again: that step may have deleted jobs that are newer than the first one, and only a new first step covers
// them.
func drop(ctx context.Context, b *store.Bucket, topic string, did func(dropped) error) error {
	first := int64(0)
	for cursor := "0"; ; {
		o, err := b.Call(ctx, dropScript, topic, cursor, dropStep, first, "")
		if err != nil {
			return err
		}
		reply := store.Values(o.Value)
		if len(reply) < 4 || len(reply)%2 != 0 {
			return store.ErrReply
		}
		d := dropped{first: first == 0, deleted: int(store.Integer(reply[1])), revision: store.Integer(reply[3])}
		d.running = o.Doubtful || store.Integer(reply[2]) == 1
		for job := range slices.Chunk(reply[4:], 2) {
			created := time.UnixMilli(store.Number(store.Text(job[1]))).UTC()
			d.newer = append(d.newer, store.Job{
				Topic: topic, ID: store.Text(job[0]), Shard: b.Name(), CreatedAt: created, Revision: d.revision,
			})
		}
		if err := did(d); err != nil {
			return err
		}
		cursor = store.Text(reply[0])
		switch {
		case o.Doubtful && first > 0:
			first, cursor = 0, "0"
		case cursor == "0":
			return nil
		case first == 0:
			first = d.revision
		}
	}
}

// DropUpTo deletes the jobs of a topic in one bucket up to a revision, as a line of a journal says that was replayed.
func DropUpTo(ctx context.Context, b *store.Bucket, topic string, revision int64) error {
	for cursor := "0"; ; {
		reply, err := b.CallList(ctx, 4, clearScript, topic, cursor, dropStep, "", revision)
		if err != nil {
			return err
		}
		if cursor = store.Text(reply[0]); cursor == "0" {
			return nil
		}
	}
}
