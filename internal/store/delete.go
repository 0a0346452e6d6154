package store

import (
	"context"
	"fmt"
)

// removal is the result of deleting a job in one bucket.
type removal struct {
	Job    *Job  // the known fields and the state that it was in; nil when there was none
	Gone   *Job  // there is none now, but the first call, whose answer was lost, may have deleted it
	Unsafe error // why no replica has confirmed it, when the durability requires one
}

// Remove deletes a job if it matches.
func (b *Bucket) Remove(ctx context.Context, topic, id string, m Match, d Durability) (r removal, err error) {
	o, err := b.callDurably(ctx, d, deleteScript, topic, id, m.String())
	if err != nil {
		return r, err
	}
	if o.Unsafe != nil {
		r.Unsafe = b.NotReplicated("delete", topic, id, o.Unsafe)
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != 3 && len(reply) != 5 {
		return r, fmt.Errorf("delete %s/%s: %w", topic, id, ErrReply)
	}
	switch was := Text(reply[0]); {
	case o.Doubtful && was == "":
		r.Gone = &Job{Topic: topic, ID: id, Shard: b.shard.name, Revision: Integer(reply[2])}
		return r, b.Unknown()
	case o.Doubtful && was == changedOther:
		return r, b.Unknown()
	case was == changedOther:
		return r, fmt.Errorf("delete %s/%s: %w", topic, id, ErrChanged)
	case was != "" && was != string(Finished):
		r.Job = &Job{
			Topic: topic, ID: id, Shard: b.shard.name, State: State(was),
			CreatedAt: Millis(reply[1]), Revision: Integer(reply[2]),
		}
		if len(reply) > 3 {
			r.Job.Schedule, r.Job.For = Text(reply[3]), millisOf(Text(reply[4]))
		}
	}
	return r, nil
}
