package queue

import (
	"context"
	"slices"

	"github.com/wakecall/wakecall/internal/store"
)

// LastDead returns up to limit dead jobs of a topic as List does, but the last to die first. With a *PartialError they
// are from the shards that answered.
func (q *Queue) LastDead(ctx context.Context, topic string, limit int) ([]store.Job, error) {
	var jobs []store.Job
	err := q.Shards.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		some, _, err := b.List(ctx, topic, store.Dead, store.FromLast, limit, "")
		jobs = append(jobs, some...)
		return err
	})
	slices.SortStableFunc(jobs, func(a, b store.Job) int { return b.DeadAt.Compare(a.DeadAt) })
	return jobs[:min(limit, len(jobs))], err
}

// EndDead redrives or deletes dead jobs of a topic, or of all topics of a namespace: those of c.IDs, or without these
// the oldest of each shard and topic, up to c.Limit. It returns their number, and skips ids of jobs that are not dead.
func (q *Queue) EndDead(ctx context.Context, c store.DeadCall) (int, error) {
	members, err := q.membersOf(ctx, c.Topic, store.Dead)
	if err != nil {
		return 0, err
	}
	ended := map[string]bool{} // by topic and id, since a job on the move between two shards is in both
	for _, c.Topic = range members {
		if len(c.IDs) > 0 {
			err = q.deadIDs(ctx, c, ended)
		} else {
			err = q.deadOldest(ctx, c, ended)
		}
		if err != nil {
			return len(ended), err
		}
	}
	return len(ended), nil
}

func (q *Queue) deadOldest(ctx context.Context, c store.DeadCall, ended map[string]bool) error {
	limit := c.Limit
	for _, s := range *q.Shards.all.Load() {
		for len(ended) < limit {
			c.Limit = min(store.DeadStep, limit-len(ended))
			n, err := q.someDead(ctx, s, c, ended)
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

func (q *Queue) deadIDs(ctx context.Context, c store.DeadCall, ended map[string]bool) (err error) {
	for chunk := range slices.Chunk(c.IDs, store.DeadStep) {
		if c.IDs, err = q.deadEverywhere(ctx, c.Topic, chunk); err != nil {
			return err
		}
		for _, s := range *q.Shards.all.Load() {
			if len(c.IDs) == 0 {
				break
			}
			if _, err := q.someDead(ctx, s, c, ended); err != nil {
				return err
			}
		}
	}
	return nil
}

// deadEverywhere returns the ids of jobs that have no copy in another state. A push that faults delayed may be stored
// in two shards: if only its dead copy were deleted, the other would still be called.
func (q *Queue) deadEverywhere(ctx context.Context, topic string, ids []string) ([]string, error) {
	shards := *q.Shards.all.Load()
	if len(shards) < 2 {
		return ids, nil
	}
	refs, alive := make([]store.Ref, len(ids)), map[string]bool{}
	for i, id := range ids {
		refs[i] = store.Ref{Topic: topic, ID: id}
	}
	for _, s := range shards {
		jobs, err := store.Live(s.Read(ctx, refs))
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if j != nil && j.State != store.Dead {
				alive[j.ID] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return alive[id] }), nil
}

// someDead redrives or deletes dead jobs in one call of the script, records that, and adds them to ended.
func (q *Queue) someDead(
	ctx context.Context, s *store.Shard, c store.DeadCall, ended map[string]bool,
) (int, error) {
	jobs, err := s.BucketOf(c.Topic).EndDead(ctx, c)
	if err != nil {
		return 0, err
	}
	for i := range jobs {
		ended[c.Topic+"/"+jobs[i].ID] = true
	}
	return len(jobs), q.record(ctx, c.Kind, jobs...)
}
