package recurring_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// drainable is a fixture with more shards, which are draining. drain drains the first one, a, into these instead.
func drainable(t *testing.T, others ...string) (f *fixture, drain func() (a *store.Shard)) {
	t.Helper()
	f = newFixture(t)
	urls := map[string]string{"a": f.redis.URL()}
	for _, name := range others {
		urls[name] = redistest.Start(t, redistest.Options{Quick: true}).URL()
	}
	set := func(a, other string) {
		t.Helper()
		var shards []store.ShardConfig
		for name, url := range urls {
			state := other
			if name == "a" {
				state = a
			}
			shards = append(shards, store.ShardConfig{Name: name, URL: url, State: state})
		}
		if err := f.queue.Shards.Set(shards); err != nil {
			t.Fatal(err)
		}
	}
	set("active", "draining")
	for _, name := range others {
		s := f.queue.Shards.Named(name)
		wait.For(t, "the shard is adopted", func() bool { return queuetest.Adopt(t.Context(), s) == nil })
		if err := f.registry.PutShard(t.Context(), "me", registry.Shard{
			Name: name, URL: urls[name], State: registry.ShardActive,
		}); err != nil {
			t.Fatal(err)
		}
	}
	return f, func() *store.Shard {
		t.Helper()
		set("draining", "active")
		return f.queue.Shards.Named("a")
	}
}

// where tells what a shard has of a schedule.
func (f *fixture) where(s *store.Shard, name string) string {
	f.Helper()
	c, err := s.BucketOf("reports").Cursor(f.Context(), name)
	if err != nil {
		f.Fatal(err)
	}
	if c == nil {
		return "nothing"
	}
	return shown(c.Revision, c)
}

func shown(definition int64, c *store.Cursor) string {
	return fmt.Sprintf("definition %d at %s, last %v, left out %v", definition, c.At.Format(time.TimeOnly), c.Last, c.LeftOut)
}

// refusing is a registry that stores no move after the shards have been told.
type refusing struct{ recurring.Registry }

var errNoCommit = errors.New("the commit failed")

func (r refusing) ChangeSchedule(
	ctx context.Context, actor, action, name string, edit registry.ScheduleEdit, place registry.PlaceSchedule,
) (*registry.Schedule, error) {
	return r.Registry.ChangeSchedule(ctx, actor, action, name, edit,
		func(ctx context.Context, was, now *registry.Schedule) error {
			return errors.Join(place(ctx, was, now), errNoCommit)
		})
}

// TestADrainedScheduleGoesOnWhereItWas: the other shard gets its cursor, its last occurrences and its counts with the
// definition, also at the second try, when the first was not committed. In between, and afterwards, a host with the old
// definition pushes nothing at the old shard, which has nothing left of it in the end.
func TestADrainedScheduleGoesOnWhereItWas(t *testing.T) {
	f, drain := drainable(t, "b")
	old := f.put(everySecond("tick"))
	for n := range 3 {
		at := f.get("tick").Cursor.At
		next := at.Truncate(time.Second).Add(time.Second)
		wait.For(t, "the next occurrence", func() bool { return f.fires(old, at, next).What == store.FiredJobs })
		if n == 1 {
			old = f.put(func() registry.Schedule { s := everySecond("tick"); s.Body = []byte("2"); return s }())
		}
	}
	a := drain()
	b, before := f.queue.Shards.Named("b"), f.get("tick")

	err := recurring.New(f.queue, refusing{f.registry}).Drain(t.Context(), a)
	if !errors.Is(err, errNoCommit) {
		t.Fatal(err)
	}
	if got := f.get("tick"); got.Shard != "a" || got.Cursor.Revision == before.Revision {
		t.Errorf("after a failed commit: %+v, %+v", got.Schedule, got.Cursor)
	}
	if d := f.fires(old, before.Cursor.At, before.Cursor.At.Add(time.Second)); d.What != store.FiredOther {
		t.Errorf("after a failed commit the old shard answers %q", d.What)
	}

	if err := f.Drain(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	after := f.get("tick")
	want := shown(after.Revision, before.Cursor)
	if got := f.where(b, "tick"); after.Shard != "b" || after.Revision <= before.Revision || got != want {
		t.Errorf("shard %s has %s, want\n%s", after.Shard, got, want)
	}
	if got := f.where(a, "tick"); got != "nothing" {
		t.Errorf("the old shard has %s", got)
	}
	line := f.lines[len(f.lines)-1]
	if line.Shard != "a" || line.Rev != 0 || line.Name != "tick" {
		t.Errorf("the last line is %+v, want its removal", line)
	}
	if err := f.Drain(t.Context(), a); err != nil || f.get("tick").Revision != after.Revision {
		t.Errorf("drained again: %v, %+v", err, f.get("tick").Schedule)
	}
	f.run(2)
	wait.For(t, "it goes on", func() bool { return f.get("tick").Cursor.At.After(before.Cursor.At) })
}

// TestAScheduleIsNotDrainedWhileItsOccurrenceRuns: the other shard would not know that it keeps the next one out.
func TestAScheduleIsNotDrainedWhileItsOccurrenceRuns(t *testing.T) {
	f, drain := drainable(t, "b")
	s := everySecond("tick")
	s.Overlap = registry.OverlapSkip
	def, at := f.put(s), f.get("tick").Cursor.At
	next := at.Truncate(time.Second).Add(time.Second)
	wait.For(t, "an occurrence", func() bool { return f.fires(def, at, next).What == store.FiredJobs })
	a := drain()
	taken, err := a.BucketOf("reports").Reserve(t.Context(), store.Reserve{Worker: "w", Token: "1", Max: 1, Pattern: "012"})
	if err != nil || len(taken.Jobs) != 1 {
		t.Fatal(taken, err)
	}
	if err := f.Drain(t.Context(), a); err != nil || f.get("tick").Shard != "a" {
		t.Errorf("drained while it runs: %v, %s", err, f.get("tick").Shard)
	}
	f.queue.End(t.Context(), []store.End{{Lease: taken.Jobs[0].Lease, Verb: store.Done}})
	if err := f.Drain(t.Context(), a); err != nil || f.get("tick").Shard != "b" {
		t.Errorf("drained when it has ended: %v, %s", err, f.get("tick").Shard)
	}
	if last := f.get("tick").Cursor.Last; len(last) != 1 || last[0].State != store.Finished {
		t.Errorf("last: %+v", last)
	}
}

// fires tries to push an occurrence at the old shard.
func (f *fixture) fires(def *registry.Schedule, cursor, at time.Time) store.Fired {
	f.Helper()
	p := store.Push{Topic: "reports", ID: schedule.OccurrenceID(def.Name, at), DueAt: at, Body: def.Body,
		Schedule: def.Name, For: at}
	fired, _, err := f.queue.Fire(f.Context(), f.queue.Shards.Named("a").BucketOf("reports"), []store.Fire{{
		Name: def.Name, Topic: "reports", Revision: def.Revision, Cursor: cursor, New: at, Overlap: "allow",
		Jobs: []store.Push{p},
	}})
	if err != nil {
		f.Fatal(err)
	}
	return fired[0]
}

// TestOccurrencesAreDrainedToTheirSchedule, whatever the homes of their ids are; not before it, and to their homes when
// there is no schedule.
func TestOccurrencesAreDrainedToTheirSchedule(t *testing.T) {
	f, drain := drainable(t, "b", "c")
	f.put(everySecond("tick"))
	f.put(everySecond("deleted"))
	const n = 20
	future := time.Now().Add(time.Hour).Truncate(time.Second)
	for i := range n {
		for _, name := range []string{"tick", "deleted"} {
			at := future.Add(time.Duration(i) * time.Second)
			r := f.queue.Push(t.Context(), store.Push{Topic: "reports", ID: schedule.OccurrenceID(name, at), DueAt: at,
				Schedule: name, For: at, Body: []byte("1")})
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	if err := f.Delete(t.Context(), "me", "deleted"); err != nil {
		t.Fatal(err)
	}
	a := drain()
	// shards returns how many jobs of a schedule each shard has.
	shards := func() map[string]map[string]int {
		t.Helper()
		if _, err := f.queue.Drain(t.Context(), a, "me"); err != nil {
			t.Fatal(err)
		}
		jobs, _, err := f.queue.List(t.Context(), "reports", store.Delayed, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		list := map[string]map[string]int{"tick": {}, "deleted": {}}
		for _, j := range jobs {
			list[j.Schedule][j.Shard]++
			if !j.For.Equal(j.DueAt) {
				t.Errorf("%s is for %s", j.ID, j.For)
			}
		}
		return list
	}
	got := shards()
	if got["tick"]["a"] != n || got["deleted"]["b"] == 0 || got["deleted"]["b"]+got["deleted"]["c"] != n {
		t.Errorf("before the schedule: %v", got)
	}
	if err := f.Drain(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := shards(); got["tick"][f.get("tick").Shard] != n {
		t.Errorf("the schedule is in %s, its occurrences in %v", f.get("tick").Shard, got["tick"])
	}
}

// on stores a schedule that is on a shard, which is not told.
func (f *fixture) on(shard, name string) {
	f.Helper()
	edit := func(*registry.Schedule) (*registry.Schedule, error) {
		s := everySecond(name)
		s.Shard = shard
		return &s, nil
	}
	place := func(context.Context, *registry.Schedule, *registry.Schedule) error { return nil }
	if _, err := f.registry.ChangeSchedule(f.Context(), "me", "put", name, edit, place); err != nil {
		f.Fatal(err)
	}
}

// TestTheQueueLearnsOfANewShardAfterItsSchedules: they stay there.
func TestTheQueueLearnsOfANewShardAfterItsSchedules(t *testing.T) {
	f := newFixture(t)
	b := registry.Shard{Name: "b", URL: "redis://127.0.0.1:1/0", State: registry.ShardActive}
	if err := f.registry.PutShard(t.Context(), "me", b); err != nil {
		t.Fatal(err)
	}
	f.on("b", "there")
	f.put(everySecond("here"))
	f.run(1)
	wait.For(t, "an occurrence", func() bool { return len(f.ids()) > 0 })
	if now := f.registry.Snapshot().Schedules.Get("there"); now.Shard != "b" {
		t.Errorf("the schedule was moved to %s", now.Shard)
	}
}

// TestTheQueueLearnsOfARemovedShardAfterItsSchedules: they go on elsewhere, even if that could not be stored at first.
func TestTheQueueLearnsOfARemovedShardAfterItsSchedules(t *testing.T) {
	f := newFixture(t)
	all := []store.ShardConfig{{Name: "a", URL: f.redis.URL(), State: "active"},
		{Name: "b", URL: redistest.Start(t, redistest.Options{Quick: true}).URL(), State: "active"}}
	if err := f.queue.Shards.Set(all); err != nil {
		t.Fatal(err)
	}
	b := f.queue.Shards.Named("b")
	wait.For(t, "the shard is adopted", func() bool { return queuetest.Adopt(t.Context(), b) == nil })
	name := "tick"
	for home := (*store.Shard)(nil); home != b; {
		var err error
		if home, err = f.queue.HomeOf("reports", name); err != nil {
			t.Fatal(err)
		}
		if home != b {
			name += "k"
		}
	}
	f.on("b", name)
	f.put(everySecond("here"))
	f.run(1)
	wait.For(t, "an occurrence", func() bool { return len(f.ids()) > 0 })
	if err := f.queue.Shards.Set(all[:1]); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the schedule is moved", func() bool { return f.registry.Snapshot().Schedules.Get(name).Shard == "a" })
}

// TestAScheduleOfARemovedShardGoesOnWhereItWas: no occurrence is lost between the two.
func TestAScheduleOfARemovedShardGoesOnWhereItWas(t *testing.T) {
	f := newFixture(t)
	removed := redistest.Start(t, redistest.Options{Quick: true})
	b := registry.Shard{Name: "b", URL: removed.URL(), State: registry.ShardActive}
	all := []store.ShardConfig{{Name: "a", URL: f.redis.URL(), State: "active"}, {Name: "b", URL: b.URL, State: "active"}}
	if err := errors.Join(f.registry.PutShard(t.Context(), "me", b), f.queue.Shards.Set(all)); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the shard is adopted", func() bool {
		return queuetest.Adopt(t.Context(), f.queue.Shards.Named("b")) == nil
	})
	s := everySecond("tick")
	s.Missed, s.MaxLate = "all", registry.Duration(time.Hour)
	for f.put(s).Shard != "b" {
		s.Name += "k"
	}
	f.run(2)
	wait.For(t, "an occurrence", func() bool { return len(f.get(s.Name).Cursor.Last) > 0 })
	before, err := removed.Client().HGet(t.Context(), store.Prefix(0)+"s:"+s.Name, "at").Int64()
	if err != nil {
		t.Fatal(err)
	}
	removed.Kill9()
	f.redis.Pause() // the other shard takes it only after a while
	b.State = registry.ShardOffline
	if err := errors.Join(f.registry.PutShard(t.Context(), "me", b), f.queue.Shards.Set(all[:1])); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "four seconds", func() bool { return time.Since(time.UnixMilli(before)) > 5*time.Second })
	f.redis.Resume()
	wait.For(t, "occurrences in the other shard", func() bool {
		v, err := f.Get(t.Context(), s.Name)
		return err == nil && v.Shard == "a" && v.Cursor != nil && len(v.Cursor.Last) > 1
	})
	first := f.get(s.Name).Cursor.Last[0].For
	if gap := first - before; gap > 2000 { // there may have been one more before it was killed
		t.Errorf("after %d comes the occurrence %d", before, first)
	}
}
