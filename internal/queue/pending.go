package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// A bucket that does not answer cannot take part in the cancellation of a group. So the cancellation is stored in
// another shard (the key pend), and carried out before a process calls the bucket again, see store.Peers.CatchUp. A
// process that never lost the bucket hears of it by a message (timers and dispatchers listen). Until then members may
// be called. Closed groups are copied in the same way, also to new shards.

// pending is a cancellation that a bucket has to carry out.
type pending struct {
	Name   string `json:"name"`
	Group  string `json:"group"`
	Topics string `json:"topics"`          // patterns
	Until  string `json:"until,omitempty"` // the group is closed until then, as closegroup.lua reads it
	Via    string `json:"via,omitempty"`
	By     string `json:"by,omitempty"`
}

// pendingField returns the field of pend for a cancellation, without its name the beginning of those of the bucket.
func pendingField(b *store.Bucket, name string) string {
	return fmt.Sprint(b.Name(), " ", b.Number(), " ", name)
}

// postponeCancel stores a cancellation for buckets that did not answer, in the first shard that takes it.
func (q *Queue) postponeCancel(ctx context.Context, p *pending, missed []*store.Bucket) error {
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("store a cancellation: %w", err)
	}
	args := []any{"add"}
	without := map[*store.Shard]bool{}
	for _, b := range missed {
		args = append(args, pendingField(b, p.Name), value)
		without[b.Shard()] = true
	}
	err = q.noShard()
	for _, s := range *q.Shards.active.Load() {
		if without[s] {
			continue
		}
		if _, err = s.Buckets()[0].Call(ctx, pendScript, args...); err == nil {
			return nil
		}
	}
	if un, ok := errors.AsType[*store.UnavailableError](err); ok {
		return un
	}
	return &store.UnavailableError{Reason: "down", RetryAfter: time.Second, Err: err}
}

// peersTimeout bounds what a bucket asks of other shards before it is used: one that hangs must not hold it up.
const peersTimeout = 300 * time.Millisecond

// catchUp carries out in a bucket what other shards hold for it, and in others what it holds for them. Its errors are
// those of the bucket itself.
func (q *Queue) catchUp(ctx context.Context, b *store.Bucket) error {
	for _, s := range *q.Shards.all.Load() {
		first := s.Buckets()[0]
		if s == b.Shard() || first.IsDown() {
			continue
		}
		if err := q.copyClosed(ctx, first, b); err != nil {
			return err
		}
		if err := q.carryOut(ctx, first, b); err != nil {
			return err
		}
	}
	if b.Number() != 0 {
		return nil
	}
	for _, other := range q.Shards.Buckets() {
		if other.Shard() != b.Shard() && !other.IsDown() {
			_ = q.carryOut(ctx, b, other) // other is down if it fails, and will catch up
		}
	}
	return nil
}

// copyClosed closes the groups in a bucket that are closed in another one.
func (q *Queue) copyClosed(ctx context.Context, from, to *store.Bucket) error {
	short, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	closed, err := from.Shard().Redis().ZRangeWithScores(short, from.Key("closed"), 0, -1).Result()
	if err != nil {
		return nil
	}
	for _, one := range closed {
		group, topics, _ := strings.Cut(fmt.Sprint(one.Member), " ")
		if _, err := to.SendOnly(ctx, closeGroupScript, group, topics, int64(one.Score)); err != nil {
			return err
		}
	}
	return nil
}

// carryOut carries out the cancellations that a bucket holds for another one.
func (q *Queue) carryOut(ctx context.Context, from, to *store.Bucket) error {
	short, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	held, err := from.Shard().Redis().HGetAll(short, from.Key("pend")).Result()
	if err != nil {
		return nil
	}
	for field, value := range held {
		if !strings.HasPrefix(field, pendingField(to, "")) {
			continue
		}
		var p pending
		if err := json.Unmarshal([]byte(value), &p); err == nil {
			if err := q.carryOutOne(ctx, to, &p); err != nil {
				return err
			}
		}
		_, _ = from.SendOnly(ctx, pendScript, "remove", field) // otherwise it is carried out again, and finds nothing
	}
	return nil
}

func (q *Queue) carryOutOne(ctx context.Context, b *store.Bucket, p *pending) error {
	ctx = store.By(store.Via(ctx, p.Via), p.By)
	if p.Until != "" {
		if _, err := q.closeIn(ctx, b, b.SendOnly, p.Group, p.Topics, p.Until); err != nil {
			return err
		}
	}
	_, err := q.cancelIn(ctx, b, b.SendOnly, p.Group, p.Topics, p.Name)
	return err
}
