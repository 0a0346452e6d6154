package store

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// RunArgs are the arguments of change.lua that make a job due now.
var RunArgs = []any{"run"}

// Args returns the arguments of change.lua for an edit. Error: ErrTooFar.
func (c *Change) Args() ([]any, error) {
	when := ""
	switch {
	case c.DueAt != nil:
		if time.Until(*c.DueAt) > MaxDelay {
			return nil, ErrTooFar
		}
		when = timeText(max(0, CeilMilli(*c.DueAt).UnixMilli()), true)
	case c.Delay != nil:
		if *c.Delay > MaxDelay {
			return nil, ErrTooFar
		}
		when = timeText(max(0, ceilDelay(*c.Delay)), false)
	}
	priority, given := "", ""
	if c.Priority != nil {
		priority = c.Priority.String()
	}
	var body []byte
	if c.Body != nil {
		given, body = "1", *c.Body
	}
	url := ""
	if c.URL != nil {
		url = cmp.Or(*c.URL, "-")
	}
	return []any{"change", when, priority, given, body, url}, nil
}

// Results of change.lua other than a description.
const changedNone, changedDead, changedOther = "none", "dead", "other"

var changeErrors = map[string]error{
	"running": ErrRunning, changedDead: ErrDead, changedOther: ErrChanged, "expires": ErrExpires,
	"closed": ErrClosed,
}

// Change changes a job as change.lua says; it returns a nil job when the bucket has none of this id. unsafe says why no
// replica has confirmed the change, when the topic's durability requires one.
func (b *Bucket) Change(
	ctx context.Context, d Durability, topic, id string, m Match, what []any,
) (job *Job, unsafe, err error) {
	args := append([]any{topic, id, m.String()}, what...)
	o, err := b.callDurably(ctx, d, changeScript, args...)
	if err != nil {
		return nil, nil, err
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != 3 {
		return nil, nil, fmt.Errorf("change %s/%s: %w", topic, id, ErrReply)
	}
	result := Text(reply[2]) // "" with a description
	switch refused := changeErrors[result]; {
	case o.Doubtful && result != "" && result != changedDead:
		// The first call may have made it due, and it may have been reserved and delivered since.
		return nil, nil, b.Unknown()
	case result == changedNone:
		return nil, nil, nil
	case refused != nil:
		return nil, nil, fmt.Errorf("change %s/%s: %w", topic, id, refused)
	}
	if o.Unsafe != nil {
		unsafe = b.NotReplicated("change", topic, id, o.Unsafe)
	}
	if job, err = b.Described(topic, reply[2], micros(reply[0])); err != nil {
		return nil, nil, err
	}
	job.ChangedAt, job.Revision = micros(reply[0]).Truncate(time.Millisecond), Integer(reply[1])
	return job, unsafe, nil
}
