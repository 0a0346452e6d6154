package queue

import (
	"context"
	"slices"

	"github.com/wakecall/wakecall/internal/store"
)

// RedriveDead makes dead jobs of a topic, or of all topics of a namespace, ready again with attempts 0: the given ids,
// or without ids the oldest of each shard and topic, up to limit. It returns their number, and skips ids of jobs that
// are not dead.
func (q *Queue) RedriveDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	return q.dead(ctx, store.DeadCall{Kind: store.Redriven, Topic: topic}, ids, limit)
}

// DeleteDead deletes dead jobs, chosen as in RedriveDead.
func (q *Queue) DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	return q.dead(ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: topic}, ids, limit)
}

// RedriveAs redrives the oldest dead jobs, up to limit, with other attempts and another time to live.
func (q *Queue) RedriveAs(ctx context.Context, topic string, limit int, as store.Renewal) (int, error) {
	return q.dead(ctx, store.DeadCall{Kind: store.Redriven, Topic: topic, As: &as}, nil, limit)
}

func (q *Queue) dead(ctx context.Context, c store.DeadCall, ids []string, limit int) (int, error) {
	members, err := q.membersOf(ctx, c.Topic, store.Dead)
	if err != nil {
		return 0, err
	}
	ended := map[string]bool{} // by topic and id, since a job on the move between two shards is in both
	for _, c.Topic = range members {
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

func (q *Queue) deadOldest(ctx context.Context, c store.DeadCall, limit int, ended map[string]bool) error {
	for _, s := range *q.shards.Load() {
		for len(ended) < limit {
			n, err := q.someDead(ctx, s, c, min(store.DeadStep, limit-len(ended)), nil, ended)
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

func (q *Queue) deadIDs(ctx context.Context, c store.DeadCall, ids []string, ended map[string]bool) error {
	for chunk := range slices.Chunk(ids, store.DeadStep) {
		chunk, err := q.deadEverywhere(ctx, c.Topic, chunk)
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
	refs, alive := make([]store.Ref, len(ids)), map[string]bool{}
	for i, id := range ids {
		refs[i] = store.Ref{Topic: topic, ID: id}
	}
	for _, s := range shards {
		jobs, err := s.GetLive(ctx, refs)
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

// someDead re-drives or deletes dead jobs in one call of the script, records that, and adds them to ended.
func (q *Queue) someDead(
	ctx context.Context, s *store.Shard, c store.DeadCall, limit int, ids []string, ended map[string]bool,
) (int, error) {
	jobs, err := s.EndDead(ctx, c, limit, ids)
	if err != nil {
		return 0, err
	}
	for i := range jobs {
		ended[c.Topic+"/"+jobs[i].ID] = true
	}
	return len(jobs), q.record(ctx, c.Kind, jobs...)
}
