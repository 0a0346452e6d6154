package store

import (
	"context"
	"fmt"
)

// removal is the result of deleting a job in one shard.
type removal struct {
	Job    *Job  // the known fields and the state that it was in; nil when there was none
	Gone   *Job  // there is none now, but the first call, whose answer was lost, may have deleted it
	Unsafe error // why no replica has confirmed it, when the durability requires one
}

// Remove deletes a job of this shard if it matches.
func (s *Shard) Remove(ctx context.Context, topic, id string, m Match, d Durability) (r removal, err error) {
	o, err := s.CallDurably(ctx, s.BucketOf(topic), d, deleteScript, topic, id, m.String())
	if err != nil {
		return r, err
	}
	if o.Unsafe != nil {
		r.Unsafe = s.NotReplicated("delete", topic, id, o.Unsafe)
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != 3 {
		return r, fmt.Errorf("delete %s/%s: %w", topic, id, ErrReply)
	}
	switch was := Text(reply[0]); {
	case o.Doubtful && was == "":
		r.Gone = &Job{Topic: topic, ID: id, Shard: s.name, Revision: Integer(reply[2])}
		return r, s.unknown()
	case o.Doubtful && was == changedOther:
		return r, s.unknown()
	case was == changedOther:
		return r, fmt.Errorf("delete %s/%s: %w", topic, id, ErrChanged)
	case was != "" && was != string(Finished):
		r.Job = &Job{
			Topic: topic, ID: id, Shard: s.name, State: State(was),
			CreatedAt: Millis(reply[1]), Revision: Integer(reply[2]),
		}
	}
	return r, nil
}
