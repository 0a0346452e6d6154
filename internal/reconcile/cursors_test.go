package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// The schedule of these tests has the name every and an occurrence each minute; its cursor begins at the first.
const every = "every"

func minute(n int) time.Time { return time.Date(2026, 11, 23, 0, n, 0, 0, time.UTC) }

func occurrenceID(n int) string { return every + "@" + minute(n).Format(time.RFC3339) }

// bucket is where the schedule is.
func (h *host) bucket() *store.Bucket { return h.queue.Shards.All()[0].BucketOf("t") }

// place sets the schedule's definition, or with 0 removes it.
func (h *host) place(t *testing.T, definition int64) {
	t.Helper()
	c := store.CursorChange{Name: every, Topic: "t", Revision: definition}
	switch definition {
	case 0:
		c.Topic = ""
	case 1:
		c.Cursor = minute(0)
	case 2:
		c.LeftOut, c.Reason = 3, "edited"
	}
	change, err := h.bucket().SetCursor(t.Context(), c)
	if err == nil && change != nil {
		change.Topic = "t"
		err = Recorder{Journal: h.journal}.Scheduled(*change)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fires returns what becomes of the try to push an occurrence by a host that knows the one before.
func (h *host) fires(ctx context.Context, definition int64, n int) (store.FiredWhat, error) {
	p := store.Push{Topic: "t", ID: occurrenceID(n), Body: []byte("1"), DueAt: minute(n), Schedule: every, For: minute(n)}
	fired, _, err := h.bucket().Fire(ctx, []store.Fire{{
		Name: every, Topic: "t", Revision: definition, Cursor: minute(n - 1), New: minute(n), Overlap: "allow",
		Jobs: []store.Push{p},
	}})
	if err != nil {
		return "", err
	}
	if f := &fired[0]; f.Noted != nil {
		recorder := Recorder{Journal: h.journal}
		if err := recorder.Accepted([]store.Push{p}, f.Results); err != nil {
			return "", err
		}
		return f.What, recorder.Scheduled(*f.Noted)
	}
	return fired[0].What, nil
}

func (h *host) fire(t *testing.T, definition int64, n int) {
	t.Helper()
	if what, err := h.fires(t.Context(), definition, n); err != nil || what != store.FiredJobs {
		t.Fatalf("occurrence %d: %s, %v", n, what, err)
	}
}

// delivers calls the job of the oldest occurrence.
func (h *host) delivers(t *testing.T, n int) {
	t.Helper()
	l, err := h.reserve(t.Context(), store.NewID())
	if err != nil || l == nil || l.ID != occurrenceID(n) {
		t.Fatalf("reserved %+v, %v", l, err)
	}
	line := journal.AttemptLine{
		Topic: l.Topic, ID: l.ID, CreatedAt: l.CreatedAt, N: 1, Shard: l.Shard, Revision: l.Revision,
		Outcome: journal.Done, Schedule: l.Schedule, For: l.For,
	}
	if err := h.journal.Attempts([]journal.AttemptLine{line}); err != nil {
		t.Fatal(err)
	}
	if held, err := h.settle(t.Context(), l, store.Done); err != nil || !held {
		t.Fatal(held, err)
	}
}

// told is what a shard tells about the schedule, without what a restored Redis cannot know.
func (h *host) told(t *testing.T) string {
	t.Helper()
	c, err := h.bucket().Cursor(t.Context(), every)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := h.bucket().Shard().Redis().SMembers(t.Context(), h.bucket().Key("schedules")).Result()
	if err != nil || (c != nil) != slices.Equal(keys, []string{every}) {
		t.Errorf("schedules has %q of %+v, %v", keys, c, err)
	}
	if c == nil {
		return "removed"
	}
	text := fmt.Sprintf("definition %d, %s", c.Revision, c.At.UTC().Format("15:04"))
	for _, reason := range []string{"late", "edited"} {
		if n := c.LeftOut[reason]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, reason)
		}
	}
	for _, o := range c.Last {
		text += fmt.Sprintf("; %s %s", time.UnixMilli(o.For).UTC().Format("15:04"), o.State)
	}
	return text
}

// firesNothingAgain fails when an occurrence is pushed that was pushed before.
func (h *host) firesNothingAgain(t *testing.T, pushed int) {
	t.Helper()
	for definition := range int64(4) {
		for n := 1; n <= pushed; n++ {
			if what, err := h.fires(t.Context(), definition, n); err != nil || what == store.FiredJobs {
				t.Errorf("definition %d, occurrence %d again: %q, %v", definition, n, what, err)
			}
		}
	}
}

// scheduleHistory is what happens to the schedule through two hosts; each step is a point to which Redis may lose what
// follows.
var scheduleHistory = []struct {
	name string
	do   func(t *testing.T, a, b *host)
}{
	{"it is made", func(t *testing.T, a, _ *host) { a.place(t, 1) }},
	{"an occurrence", func(t *testing.T, a, _ *host) { a.fire(t, 1, 1) }},
	{"one by the other host", func(t *testing.T, _, b *host) { b.fire(t, 1, 2) }},
	{"the first is delivered", func(t *testing.T, _, b *host) { b.delivers(t, 1) }},
	{"it is edited", func(t *testing.T, _, b *host) { b.place(t, 2) }},
	{"one of the new definition", func(t *testing.T, a, _ *host) { a.fire(t, 2, 3) }},
	{"the second is delivered", func(t *testing.T, a, _ *host) { a.delivers(t, 2) }},
	{"it is removed", func(t *testing.T, _, b *host) { b.place(t, 0) }},
	{"it is made again", func(t *testing.T, a, _ *host) { a.place(t, 3) }},
	{"nothing more", func(*testing.T, *host, *host) {}},
}

// TestRecoveryOfASchedule: whatever Redis lost, and in whichever order the hosts replay their journals, the schedule is
// as it was, and nothing is pushed twice. pushed is how many occurrences there were.
func TestRecoveryOfASchedule(t *testing.T) {
	for _, steps := range []struct{ n, pushed int }{{3, 2}, {8, 3}, {9, 3}} {
		for lost := range steps.n {
			for _, order := range []string{"a, b", "b, a"} {
				name := fmt.Sprintf("after %s, lost from %s on, replayed by %s",
					scheduleHistory[steps.n-1].name, scheduleHistory[lost].name, order)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					recoverSchedule(t, steps.n, lost, steps.pushed, order == "b, a")
				})
			}
		}
	}
}

func recoverSchedule(t *testing.T, steps, lost, pushed int, reversed bool) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	var saved memory
	for i, step := range scheduleHistory[:steps] {
		if i == lost {
			saved = remember(t, client)
		}
		step.do(t, a, b)
	}
	want := a.told(t)
	saved.forget(t, client)
	client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
	inFirst, inSecond := inA, inB
	if reversed {
		inFirst, inSecond = inB, inA
	}
	first := make(chan error, 1)
	go func() { first <- inFirst.beat(context.Background()) }()
	eventually(t, "the first host has replayed its journal", func() bool {
		return client.HExists(t.Context(), "wk:{0}:cmp", "by "+inFirst.host).Val()
	})
	if err := firesWhileCompared(t, a); !store.IsComparing(err) {
		t.Errorf("an occurrence during the comparison: %v", err)
	}
	attendAll(t, inSecond)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	ready(t, a, b)
	if got := a.told(t); got != want {
		t.Errorf("after %s is lost:\n%s, want\n%s", scheduleHistory[lost].name, got, want)
	}
	b.firesNothingAgain(t, pushed)
}

// firesWhileCompared returns the error of the next occurrence of each definition.
func firesWhileCompared(t *testing.T, h *host) (err error) {
	for definition := range int64(3) {
		for n := range 4 {
			if _, err = h.fires(t.Context(), definition, n+1); err == nil {
				return nil
			}
		}
	}
	return err
}

// TestRecoveryOfAScheduleWhileAHostIsAway: nothing is pushed before that host's journal is known, since it may have the
// cursor; then the schedule goes on from there.
func TestRecoveryOfAScheduleWhileAHostIsAway(t *testing.T) {
	for name, saves := range map[string]bool{"everything is lost": false, "an older dump is restored": true} {
		t.Run(name, func(t *testing.T) {
			url, client := startRedis(t)
			a, b, inA, inB := twoHosts(t, url)
			a.place(t, 1)
			a.fire(t, 1, 1)
			saved := memory{}
			if attendAll(t, inA, inB); saves {
				saved = remember(t, client)
			}
			b.fire(t, 1, 2)
			b.place(t, 2)
			saved.forget(t, client)
			client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
			inA.opts.Patience = time.Millisecond
			attendAll(t, inA)
			ready(t, a)
			for _, definition := range []int64{1, 2} {
				for _, n := range []int{1, 2, 3} {
					if what, err := a.fires(t.Context(), definition, n); !isAbsent(err) {
						t.Errorf("occurrence %d: %q, %v", n, what, err)
					}
				}
			}
			c := store.CursorChange{Name: every, Topic: "t", Revision: 3}
			if _, err := a.bucket().SetCursor(t.Context(), c); !isAbsent(err) {
				t.Error("an edit meanwhile:", err)
			}
			attendAll(t, inB)
			ready(t, a, b)
			want := "definition 2, 00:02, 3 edited; 00:01 delayed; 00:02 delayed"
			if got := a.told(t); got != want {
				t.Errorf("%s, want\n%s", got, want)
			}
			a.firesNothingAgain(t, 2)
			a.fire(t, 2, 3)
		})
	}
}

// TestRecoveryKnowsOccurrencesByTheirJobs: the journal of the host that pushed the occurrences is lost with what Redis
// lost. An older cursor is set after those that another journal tells of, but not by jobs that are no occurrences that
// came: pushed by hand, before their time, or of another topic.
func TestRecoveryKnowsOccurrencesByTheirJobs(t *testing.T) {
	tests := map[string]struct {
		push store.Push
		want time.Time
	}{
		"an occurrence":   {store.Push{ID: occurrenceID(5), For: minute(5)}, minute(5)},
		"an older one":    {store.Push{ID: occurrenceID(-5), For: minute(-5)}, minute(1)},
		"a manual run":    {store.Push{ID: every + "!" + minute(5).Format(time.RFC3339), For: minute(5)}, minute(1)},
		"of the future":   {store.Push{ID: every + "@3000-01-01T00:00:00Z", For: time.UnixMilli(32503680000000)}, minute(1)},
		"of another name": {store.Push{ID: "other@2026-11-23T00:05:00Z", For: minute(5), Schedule: "other"}, minute(1)},
	}
	for name, test := range tests {
		for _, delivered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, delivered %v", name, delivered), func(t *testing.T) {
				t.Parallel()
				h, in, client := oneHost(t)
				h.place(t, 1)
				h.fire(t, 1, 1)
				attendAll(t, in)
				saved := remember(t, client)
				p := test.push
				if p.Topic = "t"; p.Schedule == "" {
					p.Schedule = every
				}
				h.mute.Store(delivered) // another host pushes it
				r := h.queue.Push(t.Context(), p)
				if h.mute.Store(false); r.Err != nil {
					t.Fatal(r.Err)
				}
				if delivered {
					line := journal.AttemptLine{
						Topic: "t", ID: p.ID, CreatedAt: r.Job.CreatedAt, N: 1, Shard: "a", Revision: r.Job.Revision + 1,
						Outcome: journal.Done, Schedule: p.Schedule, For: p.For,
					}
					if err := h.journal.Attempts([]journal.AttemptLine{line}); err != nil {
						t.Fatal(err)
					}
				}
				saved.forget(t, client)
				client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
				attendAll(t, in)
				ready(t, h)
				if c, err := h.bucket().Cursor(t.Context(), every); err != nil || !c.At.Equal(test.want) {
					t.Errorf("cursor %+v, %v, want %s", c, err, test.want)
				}
			})
		}
	}
}

// TestEveryEndOfAnOccurrenceIsRecordedWithIt, whoever ends it: the journal of the host that pushed it may be lost.
func TestEveryEndOfAnOccurrenceIsRecordedWithIt(t *testing.T) {
	end := func(v store.Verb, lease bool) func(*host, *store.Job) error {
		return func(h *host, j *store.Job) error {
			e := store.End{Verb: v, Ref: store.Ref{Topic: j.Topic, ID: j.ID}}
			if lease {
				e = store.End{Verb: v, Lease: j.Lease}
			}
			return h.queue.End(t.Context(), []store.End{e})[0].Err
		}
	}
	tests := map[string]struct {
		ends    bool // otherwise it goes on
		reserve bool
		do      func(*host, *store.Job) error
	}{
		"acknowledged": {true, true, end(store.Done, true)},
		"buried":       {true, true, end(store.Bury, true)},
		"retried":      {false, true, end(store.Fail, true)},
		"ended by id":  {true, true, end(store.Done, false)},
		"deleted": {true, false, func(h *host, j *store.Job) error {
			return h.queue.Delete(t.Context(), j.Topic, j.ID, nil)
		}},
	}
	for name, test := range tests {
		for _, schedule := range []string{every, ""} {
			t.Run(name+" "+schedule, func(t *testing.T) {
				t.Parallel()
				h, _, _ := oneHost(t)
				p := store.Push{Topic: "t", ID: occurrenceID(1), Schedule: schedule, Body: []byte("1")}
				if schedule != "" {
					p.For = minute(1)
				}
				r := h.queue.Push(t.Context(), p)
				job, err := &r.Job, r.Err
				if test.reserve && err == nil {
					job, err = h.reserve(t.Context(), store.NewID())
				}
				if err == nil {
					err = test.do(h, job)
				}
				if err != nil {
					t.Fatal(err)
				}
				schedule, at := lastLine(t, h)
				if want := test.ends && p.Schedule != ""; (schedule == every) != want || at.Equal(minute(1)) != want {
					t.Errorf("the line is of %q, for %s", schedule, at)
				}
			})
		}
	}
}

// lastLine returns the occurrence in the last line of a journal that has no push.
func lastLine(t *testing.T, h *host) (schedule string, at time.Time) {
	t.Helper()
	found := false
	for l, err := range journal.ReadRequests(h.dir, journal.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Op != journal.OpPush {
			schedule, at, found = l.Schedule, l.For, true
		}
	}
	for l, err := range journal.ReadAttempts(h.dir, journal.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		schedule, at, found = l.Schedule, l.For, true
	}
	if !found {
		t.Error("no line")
	}
	return schedule, at
}

// TestRecoveryByHandOfASchedule from the journals of two hosts: its shard opened without them, or was removed.
func TestRecoveryByHandOfASchedule(t *testing.T) {
	const lasts = "; 00:01 delayed; 00:02 delayed"
	tests := map[string]struct {
		shard   string // where it goes on; the lines are of shard a
		home    string // of the schedule now; "": it is no longer in the registry
		removed bool
		now     int // occurrence up to which the shard has decided by itself since; -1: the schedule is not there
		want    string
	}{
		"lost":                             {"a", "a", false, -1, "definition 1, 00:02" + lasts},
		"removed since":                    {"a", "a", true, -1, "removed"},
		"of a former shard":                {"b", "b", false, -1, "definition 1, 00:02" + lasts},
		"of a former shard, removed":       {"b", "", false, -1, "removed"},
		"of a former shard, older by then": {"b", "b", false, 7, "definition 9, 00:07"},
		"of a former shard, newer by then": {"b", "b", false, -7, "definition 9, 00:02"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, client := startRedis(t)
			a, b, _, _ := twoHosts(t, url)
			a.place(t, 1)
			a.fire(t, 1, 1)
			b.fire(t, 1, 2)
			if test.removed {
				b.place(t, 0)
			}
			client.FlushAll(t.Context())
			fresh := newHost(t, url)
			if err := fresh.queue.Shards.Set([]store.ShardConfig{{Name: test.shard, URL: url, State: "active"}}); err != nil {
				t.Fatal(err)
			}
			fresh.adopt(t)
			if test.now != -1 {
				c := store.CursorChange{Name: every, Topic: "t", Revision: 9, Cursor: minute(test.now)}
				if _, err := fresh.bucket().SetCursor(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			before := fresh.told(t)
			for _, dry := range []bool{true, false, false} {
				r, err := Recover(t.Context(), Options{
					Shards: fresh.queue.Shards.All(), Dirs: []string{a.dir, b.dir}, DryRun: dry,
					ScheduleHome: func(string, string) *store.Shard { return fresh.queue.Shards.Named(test.home) },
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := fresh.told(t); dry && (got != before || (r.Schedules > 0) == (before == test.want)) {
					t.Errorf("dry: %s, was %s, %+v", got, before, r)
				}
			}
			if got := fresh.told(t); got != test.want {
				t.Errorf("%s, want\n%s", got, test.want)
			}
		})
	}
}
