package recurring_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// fixture is an installation with one shard and a pull topic, whose jobs stay where they are.
type fixture struct {
	*testing.T
	*recurring.Schedules
	redis    *redistest.Server
	queue    *queue.Queue
	registry *registry.Registry

	mu     sync.Mutex
	lines  []store.ScheduleChange
	pushed []store.Push
	gone   []string // ids of jobs that were deleted
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{T: t, redis: redistest.Start(t, redistest.Options{Quick: true})}
	f.queue = queue.Open(store.Options{
		Timeout: wait.Limit, Pace: &store.MovePace{Ahead: time.Second, Within: wait.Limit},
		ShardOf: func(schedule string) string {
			if def := f.registry.Snapshot().Schedules.Get(schedule); def != nil {
				return def.Shard
			}
			return ""
		},
		Scheduled: func(c store.ScheduleChange) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lines = append(f.lines, c)
			return nil
		},
		Changed: func(kind store.ChangeKind, jobs []store.Job) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			for i := range jobs {
				if kind == store.Deleted {
					f.gone = append(f.gone, jobs[i].ID)
				}
			}
			return nil
		},
		Accepted: func(pushes []store.Push, _ []store.Result) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.pushed = append(f.pushed, pushes...)
			return nil
		},
	})
	t.Cleanup(func() { _ = f.queue.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: f.redis.URL(), State: "active"}}
	if err := f.queue.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the shard is adopted", func() bool {
		return queuetest.Adopt(t.Context(), f.queue.Shards.All()[0]) == nil
	})
	f.registry = f.open(filepath.Join(t.TempDir(), "registry.db"))
	if err := f.registry.PutShard(t.Context(), "me", registry.Shard{
		Name: "a", URL: f.redis.URL(), State: registry.ShardActive,
	}); err != nil {
		t.Fatal(err)
	}
	topic := registry.NewTopic("reports")
	topic.Delivery = registry.DeliveryPull
	if _, err := f.registry.PutTopic(t.Context(), "me", topic); err != nil {
		t.Fatal(err)
	}
	f.Schedules = recurring.New(f.queue, f.registry)
	return f
}

func (f *fixture) open(file string) *registry.Registry {
	f.Helper()
	r, err := registry.Open(registry.Options{
		DSN: "sqlite:" + file, Migrate: registry.MigrateOlder, SecretKey: []byte(strings.Repeat("k", 32)),
	})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	f.Cleanup(func() { cancel(); wg.Wait(); _ = r.Close() })
	return r
}

// run starts runners, as many processes have.
func (f *fixture) run(n int) {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		r := recurring.NewRunner(recurring.Options{
			Queue: f.queue, Registry: f.registry, Accepting: func() error { return nil },
			Logger: slog.New(slog.DiscardHandler),
		})
		wg.Go(func() { r.Run(ctx) })
	}
	f.Cleanup(func() { cancel(); wg.Wait() })
}

func everySecond(name string) registry.Schedule {
	s := registry.NewSchedule(name)
	s.Topic, s.Every, s.Body, s.Overlap = "reports", registry.Duration(time.Second), []byte(`{"n":1}`), "allow"
	return s
}

func (f *fixture) put(s registry.Schedule) *registry.Schedule {
	f.Helper()
	stored, _, err := f.Put(f.Context(), "me", s, func(*registry.Schedule) error { return nil })
	if err != nil {
		f.Fatal(err)
	}
	return stored
}

func (f *fixture) get(name string) *recurring.View {
	f.Helper()
	v, err := f.Get(f.Context(), name)
	if err != nil || v.Err != nil || v.Cursor == nil {
		f.Fatal(v, err)
	}
	return v
}

// ids returns the ids of the topic's jobs by due time.
func (f *fixture) ids() (ids []string) {
	f.Helper()
	for _, state := range []store.State{store.Ready, store.Delayed} {
		jobs, _, err := f.queue.List(f.Context(), "reports", state, "", 1000)
		if err != nil {
			f.Fatal(err)
		}
		for i := range jobs {
			ids = append(ids, jobs[i].ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestEachOccurrenceIsPushedOnce with four runners, in time, with its lines in the journal.
func TestEachOccurrenceIsPushedOnce(t *testing.T) {
	f := newFixture(t)
	f.run(4)
	f.put(everySecond("tick"))
	wait.For(t, "four occurrences", func() bool { return len(f.get("tick").Cursor.Last) >= 4 })
	if err := f.Delete(t.Context(), "me", "tick"); err != nil {
		t.Fatal(err)
	}
	ids := f.ids()
	var before time.Time
	for _, id := range ids {
		at, err := time.Parse(time.RFC3339, strings.TrimPrefix(id, "tick@"))
		if err != nil || !before.IsZero() && at.Sub(before) != time.Second {
			t.Errorf("%s follows %s: %v", id, before, err)
		}
		before = at
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pushed) != len(ids) {
		t.Errorf("%d pushes in the journal, %d jobs", len(f.pushed), len(ids))
	}
	for i, p := range f.pushed {
		if p.Schedule != "tick" || p.ID != schedule.OccurrenceID("tick", p.For) || p.Via != "schedule" {
			t.Errorf("push %d: %+v", i, p)
		}
	}
	last := f.lines[len(f.lines)-1]
	if n := len(f.lines); n != len(ids)+3 || last.Rev != 0 {
		t.Errorf("%d lines of the schedule for %d occurrences; the last is %+v", n, len(ids), last)
	}
}

// TestAPauseLeavesOut what comes meanwhile, or with catch_up follows the schedule's missed.
func TestAPauseLeavesOut(t *testing.T) {
	for _, catchUp := range []bool{false, true} {
		t.Run(fmt.Sprint("catch up ", catchUp), func(t *testing.T) {
			f := newFixture(t)
			s := everySecond("tick")
			s.Missed, s.MaxLate = "all", registry.Duration(time.Hour)
			f.put(s)
			if _, err := f.Pause(t.Context(), "me", "tick", time.Time{}); err != nil {
				t.Fatal(err)
			}
			if v := f.get("tick"); len(v.Next) != 0 || !v.IsPaused(time.Now()) {
				t.Errorf("%+v", v)
			}
			f.run(1)
			began := f.get("tick").Cursor.At
			wait.For(t, "three seconds", func() bool { return time.Since(began) > 3*time.Second })
			if ids := f.ids(); len(ids) > 0 {
				t.Errorf("pushed during the pause: %v", ids)
			}
			if _, err := f.Resume(t.Context(), "me", "tick", catchUp); err != nil {
				t.Fatal(err)
			}
			wait.For(t, "occurrences after it", func() bool { return len(f.get("tick").Cursor.Last) >= 2 })
			v := f.get("tick")
			if n := v.Cursor.LeftOut["paused"]; (n >= 2) == catchUp {
				t.Errorf("left out: %v", v.Cursor.LeftOut)
			}
			if first := time.UnixMilli(v.Cursor.Last[0].For); first.Sub(began) < 2*time.Second != catchUp {
				t.Errorf("the first is of %s, the pause began at %s", first, began)
			}
		})
	}
}

// TestAPauseEndsByItself at its time.
func TestAPauseEndsByItself(t *testing.T) {
	f := newFixture(t)
	f.put(everySecond("tick"))
	until := time.Now().Add(3 * time.Second).Truncate(time.Second)
	if _, err := f.Pause(t.Context(), "me", "tick", until); err != nil {
		t.Fatal(err)
	}
	if v := f.get("tick"); len(v.Next) != 5 || !v.Next[0].Equal(until) {
		t.Errorf("next: %v", v.Next)
	}
	f.run(2)
	wait.For(t, "an occurrence", func() bool { return len(f.get("tick").Cursor.Last) > 0 })
	v := f.get("tick")
	if first := time.UnixMilli(v.Cursor.Last[0].For); !first.Equal(until) || v.Cursor.LeftOut["paused"] == 0 {
		t.Errorf("the first is of %s, paused until %s; left out: %v", first, until, v.Cursor.LeftOut)
	}
}

// TestAManualRunIsNoOccurrence: both are pushed.
func TestAManualRunIsNoOccurrence(t *testing.T) {
	f := newFixture(t)
	s := everySecond("tick")
	s.Every, s.Overlap = registry.Duration(2*time.Second), "skip"
	f.put(s)
	job, err := f.Schedules.Run(t.Context(), "tick")
	if err != nil || !strings.HasPrefix(job.ID, "tick!") {
		t.Fatal(job, err)
	}
	f.run(1)
	wait.For(t, "the next occurrence", func() bool { return len(f.ids()) >= 2 })
	if last := f.get("tick").Cursor.Last; !strings.HasPrefix(last[0].ID, "tick@") {
		t.Errorf("%+v", last)
	}
}

// TestABackfillPushesAPeriod once, and a dry run nothing.
func TestABackfillPushesAPeriod(t *testing.T) {
	f := newFixture(t)
	s := registry.NewSchedule("hourly")
	s.Topic, s.Cron, s.Body = "reports", "0 * * * *", []byte("{}")
	f.put(s)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b := recurring.Backfill{From: day, To: day.AddDate(0, 0, 1), DryRun: true}
	for i, want := range []recurring.Backfilled{{}, {Pushed: 24}, {There: 24}} {
		got, err := f.Backfill(t.Context(), "hourly", b)
		if err != nil || len(got.Occurrences) != 24 || got.Pushed != want.Pushed || got.There != want.There {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
		b.DryRun = false
	}
	if ids := f.ids(); len(ids) != 24 || ids[0] != "hourly@2026-03-01T00:00:00Z" {
		t.Error(ids)
	}
	for _, bad := range []recurring.Backfill{
		{}, {From: day}, {From: day, To: day}, {From: day, To: time.Now().Add(time.Hour)},
		{From: day.AddDate(0, -6, 0), To: day}, {From: day, To: day.AddDate(0, 0, 1), Overlap: "often"},
	} {
		var field *registry.FieldError
		if _, err := f.Backfill(t.Context(), "hourly", bad); !errors.As(err, &field) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestAnEditCountsFromThenOn: what came before it is left out.
func TestAnEditCountsFromThenOn(t *testing.T) {
	f := newFixture(t)
	s := everySecond("tick")
	f.put(s)
	began := f.get("tick").Cursor.At
	wait.For(t, "two seconds", func() bool { return time.Since(began) > 2100*time.Millisecond })
	s.Body = []byte("2")
	f.put(s)
	v := f.get("tick")
	if n := v.Cursor.LeftOut["edited"]; n < 2 || v.Cursor.At.Sub(began) < 2*time.Second {
		t.Errorf("%+v", v.Cursor)
	}
	f.run(1)
	wait.For(t, "an occurrence", func() bool { return len(f.ids()) > 0 })
	if job, err := f.queue.Get(t.Context(), "reports", f.ids()[0]); err != nil || string(job.Body) != "2" {
		t.Errorf("%+v, %v", job, err)
	}
}

// TestAShardThatIsDownChangesNothing: the edit is refused.
func TestAShardThatIsDownChangesNothing(t *testing.T) {
	f := newFixture(t)
	s := everySecond("tick")
	was := f.put(s)
	f.redis.Kill9()
	s.Body = []byte("2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, _, err := f.Put(ctx, "me", s, func(*registry.Schedule) error { return nil })
	if _, ok := errors.AsType[*store.UnavailableError](err); !ok {
		t.Error(err)
	}
	if now := f.registry.Snapshot().Schedules.Get("tick"); now.Revision != was.Revision || string(now.Body) != `{"n":1}` {
		t.Errorf("%+v", now)
	}
}

// TestTheRegistryCountsAfterAnEditThatWasNotCommitted, and after its shard lost the schedule.
func TestTheRegistryCountsAfterAnEditThatWasNotCommitted(t *testing.T) {
	for name, damage := range map[string]func(f *fixture){
		"the shard has another definition": func(f *fixture) { f.redis.Client().HSet(f.Context(), "wk:{0}:s:tick", "rev", 7) },
		"the shard has none":               func(f *fixture) { f.redis.Client().Del(f.Context(), "wk:{0}:s:tick") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(everySecond("tick"))
			damage(f)
			f.run(2)
			wait.For(t, "an occurrence", func() bool { return len(f.ids()) > 0 })
		})
	}
}

// TestADeletionThatIsNotCommitted: the schedule goes on where it was.
func TestADeletionThatIsNotCommitted(t *testing.T) {
	f := newFixture(t)
	s := everySecond("tick")
	s.Missed, s.MaxLate = "all", registry.Duration(time.Hour)
	f.put(s)
	began := f.get("tick").Cursor.At
	if err := recurring.New(f.queue, refusing{f.registry}).Delete(t.Context(), "me", "tick"); !errors.Is(err, errNoCommit) {
		t.Fatal(err)
	}
	f.run(2)
	wait.For(t, "occurrences", func() bool { return len(f.ids()) > 0 })
	first := schedule.OccurrenceID("tick", began.Truncate(time.Second).Add(time.Second))
	if ids := f.ids(); ids[0] != first {
		t.Errorf("the first one is %s, want %s", ids[0], first)
	}
}

// TestAScheduleChangesItsTopic: it goes on at once, in the same bucket or another.
func TestAScheduleChangesItsTopic(t *testing.T) {
	f := newFixture(t)
	topic := registry.NewTopic("mails")
	topic.Delivery = registry.DeliveryPull
	if _, err := f.registry.PutTopic(t.Context(), "me", topic); err != nil {
		t.Fatal(err)
	}
	s := everySecond("tick")
	f.put(s)
	s.Topic = "mails"
	stored := f.put(s)
	if c := f.get("tick").Cursor; c.Topic != "mails" || c.Revision != stored.Revision {
		t.Errorf("the cursor is %+v", c)
	}
}

// TestOccurrencesThatHaveNotComeAreNotBackfilled: they would come again.
func TestOccurrencesThatHaveNotComeAreNotBackfilled(t *testing.T) {
	f := newFixture(t)
	f.put(everySecond("tick"))
	now := time.Now()
	d, err := f.Backfill(t.Context(), "tick", recurring.Backfill{From: now.Add(-time.Second), To: now.Add(900 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range d.Occurrences {
		if at.After(time.Now()) {
			t.Errorf("%s was pushed at %s", at, time.Now())
		}
	}
}

// standalone replaces the shard's server by one behind a proxy.
func (f *fixture) standalone() *redistest.Node {
	f.Helper()
	d := redistest.StartStandalone(f)
	if err := f.queue.Shards.Set([]store.ShardConfig{{Name: "a", URL: d.URL(), State: "active"}}); err != nil {
		f.Fatal(err)
	}
	wait.For(f, "the shard is adopted", func() bool {
		return queuetest.Adopt(f.Context(), f.queue.Shards.All()[0]) == nil
	})
	return d.Nodes[0]
}

// TestTheAnswerToAnEditIsLost: the edit is made once, and has its line in the journal.
func TestTheAnswerToAnEditIsLost(t *testing.T) {
	f := newFixture(t)
	node := f.standalone()
	s := everySecond("tick")
	f.put(s)
	time.Sleep(1100 * time.Millisecond)
	done := node.CutReply("evalsha", "tick")
	s.Body = []byte("2")
	stored := f.put(s)
	<-done
	f.mu.Lock()
	defer f.mu.Unlock()
	c, last := f.get("tick").Cursor, f.lines[len(f.lines)-1]
	if c.Revision != stored.Revision || c.LeftOut["edited"] < 1 || c.LeftOut["edited"] > 2 {
		t.Errorf("the cursor is %+v", c)
	}
	if last.Rev != stored.Revision || !last.At.Equal(c.At) || last.LeftOut["edited"] != c.LeftOut["edited"] {
		t.Errorf("the last line is %+v", last)
	}
}

// TestEditsLoseNoOccurrence: each is pushed or counted, whatever edits do while several runners push.
func TestEditsLoseNoOccurrence(t *testing.T) {
	f := newFixture(t)
	s := everySecond("tick")
	f.put(s)
	began := f.get("tick").Cursor.At
	f.run(3)
	for n := 0; time.Since(began) < 6*time.Second; n++ {
		var err error
		switch rand.IntN(5) {
		case 0:
			_, err = f.Pause(t.Context(), "me", "tick", time.Time{})
		case 1:
			_, err = f.Pause(t.Context(), "me", "tick", time.Now().Add(time.Duration(rand.IntN(1500))*time.Millisecond))
		case 2:
			_, err = f.Resume(t.Context(), "me", "tick", rand.IntN(2) == 0)
		default:
			s.Body, s.Missed = fmt.Append(nil, n), []schedule.Missed{"last", "skip", "all"}[rand.IntN(3)]
			f.put(s)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
	}
	if _, err := f.Pause(t.Context(), "me", "tick", time.Time{}); err != nil {
		t.Fatal(err)
	}
	c := f.get("tick").Cursor
	decided := len(f.ids())
	for _, n := range c.LeftOut {
		decided += n
	}
	if want := int(c.At.Unix() - began.Unix()); decided != want {
		t.Errorf("%d occurrences in %s, and of these %d were decided: %v, %v", want, c.At.Sub(began), decided, c.LeftOut, f.ids())
	}
}

// TestTheAnswerAboutAReplacedOccurrenceIsLost: its deletion has its line in the journal.
func TestTheAnswerAboutAReplacedOccurrenceIsLost(t *testing.T) {
	f := newFixture(t)
	node := f.standalone()
	s := everySecond("tick")
	s.Overlap = registry.OverlapReplace
	f.put(s)
	c := f.get("tick").Cursor
	bucket := f.queue.Shards.All()[0].BucketOf("reports")
	first := c.At.Truncate(time.Second).Add(time.Second)
	fire := func(cursor, at time.Time) {
		t.Helper()
		p := store.Push{Topic: "reports", ID: schedule.OccurrenceID("tick", at), DueAt: at, Body: s.Body,
			Schedule: "tick", For: at, OnDuplicate: store.Keep}
		_, _, err := f.queue.Fire(t.Context(), bucket, []store.Fire{{Name: "tick", Topic: "reports",
			Revision: c.Revision, Cursor: cursor, New: at, Overlap: "replace", Jobs: []store.Push{p}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Until(first.Add(time.Second)))
	fire(c.At, first)
	done := node.CutReply("evalsha", "tick")
	fire(first, first.Add(time.Second))
	<-done
	if want := []string{schedule.OccurrenceID("tick", first)}; !slices.Equal(f.gone, want) {
		t.Errorf("the journal says that %v were deleted, want %v", f.gone, want)
	}
}
