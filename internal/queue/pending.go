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
// another shard (pend:SHARD BUCKET), and carried out before a process calls the bucket again, see Peers.CatchUp. A
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

// pendingOf returns the key of what is held for a bucket, without the prefix.
func pendingOf(b *store.Bucket) string { return fmt.Sprint("pend:", b.Name(), " ", b.Number()) }

// postponeCancel stores a cancellation for buckets that did not answer, in the first shard that takes it.
func (q *Queue) postponeCancel(ctx context.Context, p *pending, missed []*store.Bucket) error {
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("store a cancellation: %w", err)
	}
	args := []any{"add"}
	without := map[*store.Shard]bool{}
	for _, b := range missed {
		args = append(args, pendingOf(b), p.Name, value)
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

// catchUp carries out in a bucket what other shards hold for it. With lost it closes the groups in it that are closed
// in others. Its errors are those of the bucket itself; all is false when another shard did not answer in time.
func (q *Queue) catchUp(ctx context.Context, b *store.Bucket, lost bool) (all bool, err error) {
	all = true
	for _, s := range *q.Shards.all.Load() {
		first := s.Buckets()[0]
		if s == b.Shard() || first.IsDown() { // one that is down makes the others catch up when it answers again
			continue
		}
		if lost {
			answered, err := copyClosed(ctx, first, b)
			if all = all && answered; err != nil {
				return false, err
			}
		}
		answered, err := q.carryOut(ctx, first, b)
		if all = all && answered; err != nil {
			return false, err
		}
	}
	return all, nil
}

// closedStep is how many closed groups one call of a script copies.
const closedStep = 200

// copyClosed closes the groups in a bucket that are closed in another one.
func copyClosed(ctx context.Context, from, to *store.Bucket) (answered bool, err error) {
	for at := int64(0); ; at += closedStep {
		short, cancel := context.WithTimeout(ctx, peersTimeout)
		closed, err := from.Shard().Redis().
			ZRangeWithScores(short, from.Key("closed"), at, at+closedStep-1).Result()
		if cancel(); err != nil {
			return false, nil
		}
		if len(closed) == 0 {
			return true, nil
		}
		var args []any
		for _, one := range closed {
			group, topics, _ := strings.Cut(fmt.Sprint(one.Member), " ")
			args = append(args, group, topics, int64(one.Score))
		}
		if _, err := to.SendOnly(ctx, closeGroupScript, args...); err != nil {
			return true, err
		}
	}
}

// carryOut carries out the cancellations that a bucket holds for another one.
func (q *Queue) carryOut(ctx context.Context, from, to *store.Bucket) (answered bool, err error) {
	short, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	held, err := from.Shard().Redis().HGetAll(short, from.Key(pendingOf(to))).Result()
	if err != nil {
		return false, nil
	}
	for name, value := range held {
		var p pending
		if err := json.Unmarshal([]byte(value), &p); err == nil {
			if err := q.carryOutOne(ctx, to, &p); err != nil {
				return true, err
			}
		}
		_, _ = from.SendOnly(ctx, pendScript, "remove", pendingOf(to), name) // otherwise it is carried out once more
	}
	return true, nil
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
