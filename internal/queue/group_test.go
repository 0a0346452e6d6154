package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// grouped is a queue of two shards that records the changes of groups.
type grouped struct {
	*testing.T
	*queue.Queue
	redis   [2]*redistest.Server
	mu      sync.Mutex
	lines   []store.GroupChange
	changed func([]store.Job) error // called for each change of jobs, if not nil
	noted   func()                  // called for each line, if not nil
}

func newGrouped(t *testing.T, timeout time.Duration) *grouped {
	t.Helper()
	t.Parallel()
	g := &grouped{T: t}
	g.Queue = queue.Open(store.Options{Timeout: timeout, Grouped: func(c store.GroupChange) error {
		g.mu.Lock()
		g.lines = append(g.lines, c)
		g.mu.Unlock()
		if g.noted != nil {
			g.noted()
		}
		return nil
	}, Changed: func(_ store.ChangeKind, jobs []store.Job) error {
		if g.changed != nil {
			return g.changed(jobs)
		}
		return nil
	}})
	t.Cleanup(func() { _ = g.Close() })
	for i := range g.redis {
		g.redis[i] = redistest.Start(t, redistest.Options{Quick: true})
	}
	g.states("active", "active")
	for _, s := range g.Shards.All() {
		wait.For(t, "the shard is adopted", func() bool { return queuetest.Adopt(t.Context(), s) == nil })
	}
	return g
}

// states sets the states of the shards.
func (g *grouped) states(states ...string) {
	g.Helper()
	var shards []store.ShardConfig
	for i, name := range []string{"a", "b"} {
		shards = append(shards, store.ShardConfig{Name: name, URL: g.redis[i].URL(), State: states[i]})
	}
	if err := g.Shards.Set(shards); err != nil {
		g.Fatal(err)
	}
}

// fill pushes n jobs into the group, delayed ones and ready ones in turn.
func (g *grouped) fill(topic string, n int) {
	g.Helper()
	list := make([]store.Push, n)
	for i := range list {
		list[i] = store.Push{Topic: topic, ID: fmt.Sprint(i), Group: "order 42", Delay: time.Duration(i%2) * time.Hour}
	}
	for _, r := range g.PushBatch(g.Context(), list) {
		if r.Err != nil {
			g.Fatal(r.Err)
		}
	}
}

// reserve takes up to n due jobs of a shard.
func (g *grouped) reserve(shard, n int) []*store.Job {
	g.Helper()
	got, err := g.Shards.All()[shard].Buckets()[0].Reserve(g.Context(), store.Reserve{
		Worker: "w", Token: store.NewID(), Max: n, Pattern: "0",
	})
	if err != nil {
		g.Fatal(err)
	}
	return got.Jobs
}

var everything = []string{"*"}

// expect checks how many jobs of each state the group has.
func (g *grouped) expect(want queue.GroupCounts) {
	g.Helper()
	got, err := g.Group(g.Context(), "order 42", everything, 0)
	if err != nil || got.Counts != want {
		g.Errorf("the group has %+v, %v; want %+v", got.Counts, err, want)
	}
}

// TestCancelGroup deletes the waiting and dead jobs of all topics and shards, and what fails later.
func TestCancelGroup(t *testing.T) {
	g := newGrouped(t, wait.Limit)
	g.fill("orders.close", 40)
	g.fill("orders.remind", 1000)
	g.fill("other", 10)
	other := g.Push(t.Context(), store.Push{Topic: "orders.close", ID: "alone", Delay: time.Hour})
	if other.Err != nil {
		t.Fatal(other.Err)
	}
	var leases []store.End
	for _, b := range g.Shards.Buckets() {
		got, err := b.Reserve(t.Context(), store.Reserve{Worker: "w", Token: "1", Max: 6, Pattern: "0"})
		if err != nil || len(got.Jobs) != 6 {
			t.Fatal(got, err)
		}
		for i, verb := range []store.Verb{store.Done, store.Retry, store.Bury, store.Release, store.Bury} {
			e := store.End{Lease: got.Jobs[i].Lease, Verb: verb}
			if verb != store.Bury || i == 2 {
				leases = append(leases, e)
			} else if d := g.End(t.Context(), []store.End{e})[0]; d.Err != nil { // dead before the cancellation
				t.Fatal(d.Err)
			}
		}
	}
	within := []string{"orders.*"}
	before, err := g.Group(t.Context(), "order 42", within, 5)
	if err != nil || before.Counts.Dead+before.Counts.Running == 0 || len(before.Jobs) != 5 {
		t.Fatalf("%+v, %v", before, err)
	}
	c, err := g.CancelGroup(t.Context(), "order 42", within, 0)
	n := before.Counts
	if err != nil || c.Deleted != n.Delayed+n.Ready+n.Dead || c.Running != n.Running || c.Pending != nil {
		t.Errorf("%+v, %v; the group had %+v", c, err, n)
	}
	for _, d := range g.End(t.Context(), leases) {
		if d.Err != nil || strings.HasPrefix(d.Topic, "orders.") && d.State != "" {
			t.Errorf("%s of a job of %s that was cancelled: %+v", d.Verb, d.Topic, d)
		}
	}
	after, err := g.Group(t.Context(), "order 42", within, 5)
	if want := (queue.GroupCounts{Running: after.Counts.Running}); err != nil || after.Counts != want {
		t.Errorf("%+v, %v", after, err)
	}
	if job, err := g.Get(t.Context(), "orders.close", "alone"); err != nil || job.State != store.Delayed {
		t.Errorf("a job of no group: %v, %v", job, err)
	}
	if all, err := g.Group(t.Context(), "order 42", []string{"other"}, 0); err != nil || all.Counts.Delayed != 5 {
		t.Errorf("the job of a topic outside: %+v, %v", all, err)
	}
	if len(g.lines) != 2 { // one for each bucket
		t.Errorf("journaled %+v", g.lines)
	}
}

// TestClosedGroup refuses what would outlive the cancellation, and changes nothing.
func TestClosedGroup(t *testing.T) {
	g := newGrouped(t, wait.Limit)
	if _, err := g.CancelGroup(t.Context(), "order 42", []string{"orders.*", "refunds"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	push := func(topic, id string, o store.OnDuplicate, group string) error {
		return g.Push(t.Context(), store.Push{
			Topic: topic, ID: id, OnDuplicate: o, Group: group, Delay: time.Hour,
		}).Err
	}
	for _, topic := range []string{"orders.close", "refunds"} {
		if err := push(topic, "1", store.Keep, ""); err != nil {
			t.Fatal(err)
		}
		for _, o := range []store.OnDuplicate{store.Keep, store.Replace, store.Refuse} {
			for _, id := range []string{"1", "new"} {
				if err := push(topic, id, o, "order 42"); !errors.Is(err, store.ErrClosed) {
					t.Errorf("push of %s/%s: %v", topic, id, err)
				}
			}
		}
		if job, err := g.Get(t.Context(), topic, "1"); err != nil || job.Group != "" {
			t.Errorf("the job that was there: %+v, %v", job, err)
		}
	}
	if err := push("other", "1", store.Keep, "order 42"); err != nil {
		t.Error("a topic outside of the patterns:", err)
	}
	if _, err := g.CancelGroup(t.Context(), "order 42", []string{"other"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	g.expect(queue.GroupCounts{})
}

// TestCancelGroupWithoutAShard: the shard that did not answer deletes its jobs before it is used again, and closes the
// group.
func TestCancelGroupWithoutAShard(t *testing.T) {
	g := newGrouped(t, 500*time.Millisecond)
	g.fill("orders.close", 40)
	g.redis[1].Pause()
	c, err := g.CancelGroup(t.Context(), "order 42", everything, time.Hour)
	if err != nil || !slices.Equal(c.Pending, []string{"b"}) || c.Deleted == 0 || c.Deleted == 40 {
		t.Fatalf("%+v, %v", c, err)
	}
	g.redis[1].Resume()
	b := g.Shards.All()[1].Buckets()[0]
	var taken store.Reserved
	wait.For(t, "the shard answers", func() bool {
		taken, err = b.Reserve(t.Context(), store.Reserve{Worker: "w", Token: "1", Max: 6, Pattern: "0"})
		return err == nil
	})
	if len(taken.Jobs) > 0 {
		t.Errorf("reserved %+v", taken.Jobs)
	}
	g.expect(queue.GroupCounts{})
	for i := range 20 { // some of them belong to the other shard
		p := store.Push{Topic: "orders.close", ID: fmt.Sprint("late", i), Group: "order 42"}
		if r := g.Push(t.Context(), p); !errors.Is(r.Err, store.ErrClosed) {
			t.Errorf("push after the shard is back: %+v", r)
		}
	}
	left := g.Shards.All()[0].Redis().Exists(t.Context(), g.Shards.All()[0].Buckets()[0].Key("pend")).Val()
	if left != 0 {
		t.Error("the cancellation is still pending")
	}
}

// TestCancelGroupWithoutAnyOtherShard is refused: nothing could be stored durably.
func TestCancelGroupWithoutAnyOtherShard(t *testing.T) {
	g := newGrouped(t, 500*time.Millisecond)
	g.fill("orders.close", 40)
	for _, r := range g.redis {
		r.Pause()
	}
	_, err := g.CancelGroup(t.Context(), "order 42", everything, time.Hour)
	if _, away := errors.AsType[*store.UnavailableError](err); !away {
		t.Error(err)
	}
}

// TestMoveGroup gives the waiting jobs another due time, a shift once for each key.
func TestMoveGroup(t *testing.T) {
	g := newGrouped(t, wait.Limit)
	g.fill("orders.close", 40)
	for _, b := range g.Shards.Buckets() {
		if _, err := b.Reserve(t.Context(), store.Reserve{Worker: "w", Token: "1", Max: 2, Pattern: "0"}); err != nil {
			t.Fatal(err)
		}
	}
	due := time.Now().Add(3 * time.Hour).Truncate(time.Millisecond)
	shift := 30 * time.Minute
	for i, step := range []struct {
		move           queue.Move
		moved, skipped int
		due            time.Time
	}{
		{queue.Move{DueAt: &due}, 36, 4, due},
		{queue.Move{Shift: &shift, Key: "k"}, 36, 4, due.Add(shift)},
		{queue.Move{Shift: &shift, Key: "k"}, 36, 4, due.Add(shift)},
		{queue.Move{Shift: &shift, Key: "l"}, 36, 4, due.Add(2 * shift)},
	} {
		moved, skipped, err := g.MoveGroup(t.Context(), "order 42", []string{"orders.*"}, step.move)
		if moved != step.moved || skipped != step.skipped || err != nil {
			t.Errorf("step %d: moved %d, skipped %d, %v", i, moved, skipped, err)
		}
		all, err := g.Group(t.Context(), "order 42", everything, 100)
		for _, j := range all.Jobs {
			if j.State == store.Delayed && !j.DueAt.Equal(step.due) || j.State == store.Ready {
				t.Errorf("step %d: %s is %s, due %s", i, j.ID, j.State, j.DueAt)
			}
		}
		if err != nil || len(all.Jobs) != 40 {
			t.Errorf("%d jobs, %v", len(all.Jobs), err)
		}
	}
	if moved, _, err := g.MoveGroup(t.Context(), "order 42", []string{"other"}, queue.Move{DueAt: &due}); moved != 0 {
		t.Errorf("moved %d jobs of other topics, %v", moved, err)
	}
}

// TestAKeyBelongsToAGroup: with the key of a request about another group, the job that now has the same id is moved.
func TestAKeyBelongsToAGroup(t *testing.T) {
	g := newGrouped(t, wait.Limit)
	shift := time.Hour
	for _, group := range []string{"order 1", "order 2"} {
		p := store.Push{Topic: "orders", ID: "1", Group: group, Delay: time.Hour, OnDuplicate: store.Replace}
		if r := g.Push(t.Context(), p); r.Err != nil {
			t.Fatal(r.Err)
		}
		before, err := g.Get(t.Context(), "orders", "1")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, _, err := g.MoveGroup(t.Context(), group, everything, queue.Move{Shift: &shift, Key: "later"})
			j, gone := g.Get(t.Context(), "orders", "1")
			if err != nil || gone != nil || !j.DueAt.Equal(before.DueAt.Add(shift)) {
				t.Fatalf("%s: %v, %v, due at %s, before at %s", group, err, gone, j.DueAt, before.DueAt)
			}
		}
	}
}

// TestCancelGroupDuringADrain: no member is missed that is on its way to another shard.
func TestCancelGroupDuringADrain(t *testing.T) {
	for i, draining := range []string{"a", "b"} {
		t.Run(draining, func(t *testing.T) {
			g := newGrouped(t, wait.Limit)
			g.fill("orders.close", 40)
			for len(g.reserve(i, 40)) > 0 { // only waiting jobs are moved
			}
			states := []string{"active", "active"}
			states[i] = "draining"
			g.states(states...)
			g.noted = sync.OnceFunc(func() { // one of the shards has been cancelled
				if n, err := g.Drain(t.Context(), g.Shards.All()[i], "mover"); err != nil {
					t.Errorf("moved %d jobs, %v", n, err)
				}
			})
			if _, err := g.CancelGroup(t.Context(), "order 42", everything, 0); err != nil {
				t.Fatal(err)
			}
			after, err := g.Group(t.Context(), "order 42", everything, 0)
			if err != nil || after.Counts.Delayed+after.Counts.Ready > 0 {
				t.Errorf("the group has %+v, %v", after.Counts, err)
			}
		})
	}
}

// TestManyClosedGroups: a shard that did not answer comes back soon, however many groups are closed, and knows them.
func TestManyClosedGroups(t *testing.T) {
	g := newGrouped(t, 500*time.Millisecond)
	const many = 20_000
	until, key := float64(time.Now().Add(time.Hour).UnixMilli()), g.Shards.All()[0].Buckets()[0].Key("closed")
	var list []redis.Z
	for i := range many {
		list = append(list, redis.Z{Score: until, Member: fmt.Sprint("g", i, " *")})
	}
	for some := range slices.Chunk(list, 1000) {
		if err := g.Shards.All()[0].Redis().ZAdd(t.Context(), key, some...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g.redis[1].Pause()
	back := g.Shards.All()[1].Buckets()[0]
	wait.For(t, "the shard is down", func() bool {
		_, _, err := back.Read(t.Context(), []store.Ref{{Topic: "t", ID: "1"}})
		return err != nil && back.IsDown()
	})
	g.redis[1].Resume()
	wait.For(t, "the shard answers", func() bool { return !back.IsDown() })
	for i := range 10 {
		p := store.Push{Topic: "orders.close", ID: fmt.Sprint(i), Group: fmt.Sprint("g", many-1-i), Delay: time.Hour}
		r := back.Push(t.Context(), store.Memory, []store.Push{p})[0]
		if !errors.Is(r.Err, store.ErrClosed) {
			t.Errorf("push into a closed group: %v", r.Err)
		}
	}
}

// TestCancelUpToSparesLaterJobs: a line of a journal says nothing about a job that was pushed afterwards and runs.
func TestCancelUpToSparesLaterJobs(t *testing.T) {
	g := newGrouped(t, wait.Limit)
	g.fill("orders.close", 40)
	if _, err := g.CancelGroup(t.Context(), "order 42", everything, 0); err != nil {
		t.Fatal(err)
	}
	g.fill("orders.close", 40)
	lease := g.reserve(0, 1)[0].Lease
	b := g.Shards.All()[0].Buckets()[0]
	if err := queue.CancelUpTo(t.Context(), b, "order 42", "*", g.lines[0].Revision); err != nil {
		t.Fatal(err)
	}
	g.expect(queue.GroupCounts{Delayed: 20, Ready: 19, Running: 1})
	d := g.End(t.Context(), []store.End{{Lease: lease, Verb: store.Retry, Delay: time.Hour}})[0]
	if d.Err != nil || d.State != store.Delayed {
		t.Errorf("retried: %+v", d)
	}
}

// TestMoveGroupIsRecorded: a repeated request records what the first one moved and could not record.
func TestMoveGroupIsRecorded(t *testing.T) {
	g := newGrouped(t, wait.Limit)
	g.fill("orders.close", 40)
	recorded, shift := map[string]time.Time{}, time.Hour
	g.changed = func([]store.Job) error { return errors.New("the disk is full") }
	m := queue.Move{Shift: &shift, Key: "k"}
	if _, _, err := g.MoveGroup(t.Context(), "order 42", everything, m); err == nil {
		t.Fatal("moved without a line in the journal")
	}
	g.changed = func(jobs []store.Job) error {
		for _, j := range jobs {
			recorded[fmt.Sprint(j.ID, " ", j.Revision)] = j.DueAt
		}
		return nil
	}
	for range 2 {
		moved, _, err := g.MoveGroup(t.Context(), "order 42", everything, m)
		if moved != 40 || err != nil {
			t.Errorf("moved %d, %v", moved, err)
		}
	}
	all, err := g.Group(t.Context(), "order 42", everything, 100)
	for _, j := range all.Jobs {
		if at := recorded[fmt.Sprint(j.ID, " ", j.Revision)]; !at.Equal(j.DueAt) {
			t.Errorf("%s is due at %s, and recorded at %s", j.ID, j.DueAt, at)
		}
	}
	if err != nil || len(all.Jobs) != 40 || len(recorded) != 40 {
		t.Errorf("%d jobs, %d recorded, %v", len(all.Jobs), len(recorded), err)
	}
}
