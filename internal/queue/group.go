package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Jobs of a group can be cancelled together, whatever their topics are. Each bucket knows the members that it holds
// (the key g:GROUP), so a group is the union of what all buckets know. Who acts on a group names the topics that it may
// touch, as patterns; other members do not count for it.

// For how long a group may be closed.
const (
	MinClose = time.Second
	MaxClose = 30 * 24 * time.Hour
)

// groupStep is how many members of a group one call of a script visits.
const groupStep = 100

// GroupCounts are the live jobs of a group.
type GroupCounts struct{ Delayed, Ready, Running, Dead int }

// Group is what is known of a group.
type Group struct {
	Counts      GroupCounts
	Jobs        []store.Job // in the order of their due times; at most as many as were asked for
	ClosedUntil time.Time   // zero: it takes jobs of all the topics
}

// Group reads a group: its jobs of the given topics, up to limit of them, without long bodies. A group without jobs is
// no error. With a *PartialError it is without the shards that did not answer.
func (q *Queue) Group(ctx context.Context, group string, topics []string, limit int) (g Group, err error) {
	now := time.Time{}
	err = q.Shards.EachBucket(func(b *store.Bucket) error {
		for cursor := "0"; ; {
			reply, err := b.CallList(ctx, -1, groupScript, store.Escape(group), strings.Join(topics, " "), cursor,
				groupStep, max(0, limit-len(g.Jobs)))
			if err != nil {
				return err
			}
			if len(reply) < groupHead || len(reply)%2 != groupHead%2 {
				return store.ErrReply
			}
			now = time.UnixMicro(store.Integer(reply[0]))
			if until := store.Millis(reply[2]); until.After(g.ClosedUntil) && until.After(now) {
				g.ClosedUntil = until
			}
			for i, n := range []*int{&g.Counts.Delayed, &g.Counts.Ready, &g.Counts.Running, &g.Counts.Dead} {
				*n += int(store.Integer(reply[3+i]))
			}
			for pair := range slices.Chunk(reply[groupHead:], 2) {
				job, err := b.Described(store.Text(pair[0]), pair[1], now)
				if err != nil {
					return err
				}
				g.Jobs = append(g.Jobs, *job)
			}
			if cursor = store.Text(reply[1]); cursor == "0" {
				return nil
			}
		}
	})
	slices.SortFunc(g.Jobs, func(a, b store.Job) int { return a.DueAt.Compare(b.DueAt) })
	return g, err
}

// groupHead is the length of group.lua's reply before the descriptions.
const groupHead = 7

// Cancelled says what cancelling a group did.
type Cancelled struct {
	Deleted int
	Running int      // they go on; one that fails is deleted then
	Pending []string // shards that did not answer: they carry it out before their jobs are called again
}

// CancelGroup deletes the waiting and dead jobs of a group that belong to the given topics. After it returns without an
// error, no callback of the deleted ones starts. With closeFor it first closes the group for these topics: until then
// pushes, runs and re-drives of its jobs have ErrClosed. It may be repeated after an *UnavailableError: a shard did not
// answer, and no other one took the cancellation.
func (q *Queue) CancelGroup(
	ctx context.Context, group string, topics []string, closeFor time.Duration,
) (c Cancelled, err error) {
	p := &pending{
		Name: store.NewID(), Group: group, Topics: strings.Join(topics, " "),
		Via: store.ViaOf(ctx), By: store.ByOf(ctx),
	}
	buckets, missed := q.Shards.Buckets(), []*store.Bucket(nil)
	ask := func(what func(*store.Bucket) error) error {
		var left []*store.Bucket
		for _, b := range buckets {
			err := what(b)
			if _, away := errors.AsType[*store.UnavailableError](err); away {
				missed = append(missed, b)
				continue
			}
			if err != nil {
				return fmt.Errorf("cancel group %s: %w", group, err)
			}
			left = append(left, b)
		}
		buckets = left
		return nil
	}
	if closeFor > 0 { // everywhere before the first deletion: a push that is accepted afterwards would outlive it
		err := ask(func(b *store.Bucket) error {
			ends, err := q.closeIn(ctx, b, b.Call, p.Group, p.Topics, fmt.Sprint("+", max(1, closeFor.Milliseconds())))
			p.Until = cmp.Or(p.Until, ends)
			return err
		})
		if err != nil {
			return c, err
		}
		p.Until = cmp.Or(p.Until, fmt.Sprint(time.Now().Add(closeFor).UnixMilli()))
	}
	err = ask(func(b *store.Bucket) error {
		one, err := q.cancelIn(ctx, b, b.Call, p.Group, p.Topics, p.Name)
		c.Deleted, c.Running = c.Deleted+one.Deleted, c.Running+one.Running
		return err
	})
	if err != nil || len(missed) == 0 {
		return c, err
	}
	if err := q.postponeCancel(ctx, p, missed); err != nil {
		return c, fmt.Errorf("cancel group %s: %w", group, err)
	}
	for _, b := range missed {
		if !slices.Contains(c.Pending, b.Name()) {
			c.Pending = append(c.Pending, b.Name())
		}
	}
	return c, nil
}

// caller calls a script in a bucket.
type caller func(ctx context.Context, script *store.Script, args ...any) (store.Reply, error)

// closeIn closes a group in a bucket, and returns until when.
func (q *Queue) closeIn(
	ctx context.Context, b *store.Bucket, call caller, group, patterns, until string,
) (ends string, err error) {
	o, err := call(ctx, closeGroupScript, store.Escape(group), patterns, until)
	if err != nil {
		return "", err
	}
	reply := store.Values(o.Value)
	if len(reply) != 2 {
		return "", store.ErrReply
	}
	return fmt.Sprint(reply[0]), q.recordGroup(ctx, b, group, patterns, store.Integer(reply[1]), store.Millis(reply[0]))
}

// cancelIn cancels a group in one bucket, in steps. When the reply of a later step was lost, it begins again, as drop
// does.
func (q *Queue) cancelIn(
	ctx context.Context, b *store.Bucket, call caller, group, patterns, name string,
) (c Cancelled, err error) {
	first, cursor, doubtful := int64(0), "0", false
	for {
		o, err := call(ctx, cancelGroupScript, store.Escape(group), patterns, cursor, groupStep, name, first, "")
		if err != nil {
			return c, err
		}
		reply := store.Values(o.Value)
		if len(reply) < cancelHead || (len(reply)-cancelHead)%3 != 0 {
			return c, store.ErrReply
		}
		cursor = store.Text(reply[0])
		deleted, running, revision := store.Integer(reply[1]), store.Integer(reply[2]), store.Integer(reply[3])
		c.Deleted, c.Running, doubtful = c.Deleted+int(deleted), c.Running+int(running), doubtful || o.Doubtful
		switch {
		case first > 0:
			err = q.record(ctx, store.Deleted, newerMembers(b, reply[cancelHead:], revision)...)
		default: // also of a bucket without members: the journal of an absent host may have some
			err = q.recordGroup(ctx, b, group, patterns, revision, time.Time{})
		}
		if err != nil {
			return c, err
		}
		switch {
		case o.Doubtful && first > 0:
			first, cursor = 0, "0"
		case cursor != "0":
			first = cmp.Or(first, revision)
		case doubtful: // the first call may have deleted some that are not counted
			return c, b.Unknown()
		default:
			return c, nil
		}
	}
}

// cancelHead is the length of cancelgroup.lua's reply before the newer jobs.
const cancelHead = 4

func newerMembers(b *store.Bucket, list []any, revision int64) (jobs []store.Job) {
	for one := range slices.Chunk(list, 3) {
		jobs = append(jobs, store.Job{
			Topic: store.Text(one[0]), ID: store.Text(one[1]), Shard: b.Name(), Revision: revision,
			CreatedAt: time.UnixMilli(store.Number(store.Text(one[2]))).UTC(),
		})
	}
	return jobs
}

func (q *Queue) recordGroup(
	ctx context.Context, b *store.Bucket, group, patterns string, revision int64, until time.Time,
) error {
	if q.opts.Grouped == nil {
		return nil
	}
	return unrecorded(q.opts.Grouped(store.GroupChange{
		Group: group, Topics: patterns, Shard: b.Name(), Bucket: b.Number(), Revision: revision, Until: until,
		Via: store.ViaOf(ctx), By: store.ByOf(ctx),
	}))
}

// CancelUpTo deletes the jobs of a group in one bucket up to a revision, as a line of a journal says that was replayed.
func CancelUpTo(ctx context.Context, b *store.Bucket, group, patterns string, revision int64) error {
	for cursor := "0"; ; {
		reply, err := b.CallList(ctx, cancelHead, cancelledScript, store.Escape(group), patterns, cursor, groupStep,
			"journal", "", revision)
		if err != nil {
			return err
		}
		if cursor = store.Text(reply[0]); cursor == "0" {
			return nil
		}
	}
}

// Move is another due time for the waiting jobs of a group: one of its fields is set.
type Move struct {
	DueAt *time.Time
	Delay *time.Duration
	Shift *time.Duration // from when each job may be called now; may be negative
	Key   string         // of the request: with one, each job is moved once, however often the request is repeated
}

func (m *Move) arg() string {
	switch {
	case m.DueAt != nil:
		return fmt.Sprint(m.DueAt.UnixMilli())
	case m.Delay != nil:
		return fmt.Sprint("+", max(0, m.Delay.Milliseconds()))
	}
	return fmt.Sprint("by ", m.Shift.Milliseconds())
}

const moveGroupStep = 100 // described jobs in one call

// MoveGroup gives the waiting jobs of a group that belong to the given topics another due time. skipped are those that
// run, are dead, or would expire before it. All shards must be up; after an *UnavailableError some may have been moved,
// and it may be repeated, a shift with the same Key.
func (q *Queue) MoveGroup(
	ctx context.Context, group string, topics []string, m Move,
) (moved, skipped int, err error) {
	for _, b := range q.Shards.Buckets() {
		if err := b.Unusable(); err != nil {
			return 0, 0, fmt.Errorf("move group %s: %w", group, err)
		}
	}
	for _, b := range q.Shards.Buckets() {
		for cursor := "0"; ; {
			reply, err := b.CallList(ctx, -1, moveGroupScript, store.Escape(group), strings.Join(topics, " "), cursor,
				moveGroupStep, m.arg(), store.Escape(m.Key))
			if err != nil {
				return moved, skipped, fmt.Errorf("move group %s: %w", group, err)
			}
			jobs, err := movedJobs(b, reply)
			if err == nil {
				err = q.record(ctx, store.Changed, jobs...)
			}
			if err != nil {
				return moved, skipped, fmt.Errorf("move group %s: %w", group, err)
			}
			moved, skipped = moved+len(jobs), skipped+int(store.Integer(reply[2]))
			if cursor = store.Text(reply[1]); cursor == "0" {
				break
			}
		}
	}
	return moved, skipped, nil
}

// movedHead is the length of movegroup.lua's reply before the jobs.
const movedHead = 3

func movedJobs(b *store.Bucket, reply []any) (jobs []store.Job, err error) {
	if len(reply) < movedHead || len(reply)%2 != movedHead%2 {
		return nil, store.ErrReply
	}
	now := time.UnixMicro(store.Integer(reply[0])).UTC()
	for pair := range slices.Chunk(reply[movedHead:], 2) {
		job, err := b.Described(store.Text(pair[0]), pair[1], now)
		if err != nil {
			return nil, err
		}
		job.ChangedAt = now.Truncate(time.Millisecond)
		jobs = append(jobs, *job)
	}
	return jobs, nil
}
