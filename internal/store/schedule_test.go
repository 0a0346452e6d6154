package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// nominal is the time of the n-th occurrence of a test's schedule.
func nominal(n int) time.Time { return time.Date(2026, 11, 23, 0, n, 0, 0, time.UTC) }

func occurrence(n int) store.Push {
	at := nominal(n)
	return store.Push{
		Topic: "t", ID: "report@" + at.Format(time.RFC3339), DueAt: at, Body: []byte("1"), Schedule: "report", For: at,
	}
}

// firing is what a process does about the occurrences after one, up to another.
func firing(after, upTo int, overlap string) store.Fire {
	f := store.Fire{Name: "report", Topic: "t", Revision: 1, Cursor: nominal(after), New: nominal(upTo),
		Overlap: overlap}
	for n := after + 1; n <= upTo; n++ {
		f.Jobs = append(f.Jobs, occurrence(n))
	}
	return f
}

func (f *fixture) fire(t *testing.T, fires ...store.Fire) []store.Fired {
	t.Helper()
	fired, _, err := f.s.BucketOf("t").Fire(f.ctx, fires)
	if err != nil {
		t.Fatal(err)
	}
	return fired
}

func (f *fixture) schedule(t *testing.T) {
	t.Helper()
	c := store.CursorChange{Name: "report", Topic: "t", Revision: 1, Cursor: nominal(0)}
	if _, err := f.s.BucketOf("t").SetCursor(f.ctx, c); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) cursor(t *testing.T) *store.Cursor {
	t.Helper()
	c, err := f.s.BucketOf("t").Cursor(f.ctx, "report")
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	return c
}

// TestAnOccurrenceIsPushedOnce, however many processes try at once.
func TestAnOccurrenceIsPushedOnce(t *testing.T) {
	f := newFixture(t)
	f.schedule(t)
	for n := range 20 {
		var wg sync.WaitGroup
		whats := make([]store.FiredWhat, 8)
		for i := range whats {
			wg.Go(func() {
				fired, _, err := f.s.BucketOf("t").Fire(f.ctx, []store.Fire{firing(n, n+1, "allow")})
				if err == nil {
					whats[i] = fired[0].What
				}
			})
		}
		wg.Wait()
		first := 0
		for _, what := range whats {
			if what == store.FiredJobs {
				first++
			} else if what != store.FiredMoved {
				t.Errorf("occurrence %d: %q", n, what)
			}
		}
		if first != 1 {
			t.Errorf("occurrence %d was pushed %d times", n, first)
		}
	}
	c := f.cursor(t)
	if !c.At.Equal(nominal(20)) || len(c.Last) != 10 || c.Last[9].ID != occurrence(20).ID ||
		c.Last[9].For != nominal(20).UnixMilli() {
		t.Errorf("%+v", c)
	}
	if n, err := f.q.Stats(f.ctx, []string{"t"}); err != nil || n["t"].Ready != 20 {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestFireSaysWhatItFound: another cursor, another definition, no schedule; several schedules in one call, of which one
// has jobs that exist.
func TestFireSaysWhatItFound(t *testing.T) {
	f := newFixture(t)
	read := store.Fire{Name: "report", Topic: "t", Revision: 1}
	if got := f.fire(t, read)[0]; got.What != store.FiredNone {
		t.Errorf("%+v", got)
	}
	f.schedule(t)
	if got := f.fire(t, read)[0]; got.What != store.FiredMoved || !got.Cursor.Equal(nominal(0)) {
		t.Errorf("%+v", got)
	}
	if r := f.q.Push(f.ctx, occurrence(2)); r.Err != nil {
		t.Fatal(r.Err)
	}
	late := firing(0, 2, "allow")
	late.Late, late.Limit = 3, 4
	old := firing(2, 3, "allow")
	old.Revision = 2
	got := f.fire(t, read, late, old, firing(2, 3, "allow"))
	for i, want := range []store.FiredWhat{store.FiredMoved, store.FiredJobs, store.FiredOther, store.FiredJobs} {
		if got[i].What != want {
			t.Errorf("%d: %+v, want %s", i, got[i], want)
		}
	}
	last := int64(0)
	for _, i := range []int{1, 3} {
		for _, r := range got[i].Results {
			job, err := f.q.Get(f.ctx, "t", r.Job.ID)
			if err != nil || r.Err != nil || job.Schedule != "report" || !job.For.Equal(r.Job.DueAt) {
				t.Errorf("%+v: %+v, %v", r, job, err)
			}
			if r.Job.ID != occurrence(2).ID && r.Job.Revision <= last {
				t.Errorf("revision %d after %d", r.Job.Revision, last)
			}
			last = max(last, r.Job.Revision)
		}
		if got[i].Noted.Revision <= last {
			t.Errorf("the cursor changed at %d, its jobs at %d", got[i].Noted.Revision, last)
		}
		last = got[i].Noted.Revision
	}
	if c := f.cursor(t); c.LeftOut["late"] != 3 || c.LeftOut["limit"] != 4 || len(c.Last) != 3 {
		t.Errorf("%+v", c)
	}
}

// TestOverlap: while the occurrence before waits, runs, or has ended.
func TestOverlap(t *testing.T) {
	for _, state := range []string{"waits", "runs", "died", "done"} {
		for _, overlap := range []string{"skip", "replace", "allow"} {
			t.Run(overlap+" while it "+state, func(t *testing.T) {
				f := newFixture(t)
				f.schedule(t)
				f.fire(t, firing(0, 1, overlap))
				var lease *store.Lease
				if state != "waits" {
					taken, err := f.s.BucketOf("t").Reserve(f.ctx, store.Reserve{Worker: "w", Token: "1", Max: 1, Pattern: "012"})
					if err != nil || len(taken.Jobs) != 1 {
						t.Fatal(taken, err)
					}
					lease = taken.Jobs[0].Lease
				}
				end := func(verb store.Verb) store.Ended {
					return f.q.End(f.ctx, []store.End{{Lease: lease, Verb: verb, Delay: time.Hour}})[0]
				}
				if verb := map[string]store.Verb{"died": store.Bury, "done": store.Done}[state]; verb != "" {
					if d := end(verb); d.Err != nil {
						t.Fatal(d.Err)
					}
				}
				ended := state == "died" || state == "done"
				want := store.FiredJobs
				if overlap == "skip" && !ended {
					want = store.FiredSkipped
				}
				got := f.fire(t, firing(1, 3, overlap))[0]
				if got.What != want {
					t.Errorf("%+v, want %s", got, want)
				}
				c := f.cursor(t)
				left := map[bool]int{true: 2}[want == store.FiredSkipped]
				if c.LeftOut["overlap"] != left || !c.At.Equal(nominal(3)) {
					t.Errorf("%+v", c)
				}
				before := map[string]store.State{"died": "dead", "done": "done", "waits": "delayed", "runs": "delayed"}[state]
				if overlap == "replace" && state == "waits" {
					before = "replaced"
				}
				if gone := got.Replaced != nil; gone != (before == "replaced") {
					t.Errorf("replaced: %+v", got.Replaced)
				}
				if c.Last[0].State != before {
					t.Errorf("the one before is %s, want %s", c.Last[0].State, before)
				}
				if state != "runs" {
					return
				}
				retried := end(store.Retry)
				if gone := retried.State == ""; retried.Err != nil || gone != (overlap == "replace") {
					t.Errorf("retried: %+v", retried)
				}
			})
		}
	}
}

// TestACursorRefusesAnOlderDefinition, and a change of one that was changed meanwhile.
func TestACursorRefusesAnOlderDefinition(t *testing.T) {
	f := newFixture(t)
	f.schedule(t)
	b := f.s.BucketOf("t")
	change := func(was, now int64, topic string) error {
		_, err := b.SetCursor(f.ctx, store.CursorChange{
			Name: "report", Topic: topic, Was: &was, Revision: now, LeftOut: 2, Reason: "edited",
		})
		return err
	}
	if err := change(1, 2, "t"); err != nil {
		t.Fatal(err)
	}
	for _, was := range []int64{0, 1, 3} {
		if err := change(was, 4, "t"); !errors.Is(err, store.ErrDefinition) {
			t.Errorf("a change of %d: %v", was, err)
		}
	}
	c := f.cursor(t)
	if c.Revision != 2 || c.LeftOut["edited"] != 2 || !c.At.Equal(nominal(0)) {
		t.Errorf("%+v", c)
	}
	if got := f.fire(t, firing(0, 1, "allow"))[0]; got.What != store.FiredOther || got.Revision != 2 {
		t.Errorf("%+v", got)
	}
	if err := errors.Join(change(2, 0, ""), change(2, 0, "")); err != nil {
		t.Error(err)
	}
	if c, err := b.Cursor(f.ctx, "report"); c != nil || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if n := f.s.Redis().Exists(f.ctx, b.Key("s:report"), b.Key("schedules")).Val(); n != 0 {
		t.Error("something is left of the schedule")
	}
}

// TestASchedulesLastSaysHowTheyEnded, whatever ended them.
func TestASchedulesLastSaysHowTheyEnded(t *testing.T) {
	f := newFixture(t)
	f.schedule(t)
	f.fire(t, firing(0, 4, "allow"))
	got, err := f.s.BucketOf("t").Reserve(f.ctx, store.Reserve{Worker: "w", Token: "1", Max: 3, Pattern: "012"})
	if err != nil || len(got.Jobs) != 3 {
		t.Fatal(got, err)
	}
	f.q.End(f.ctx, []store.End{{Lease: got.Jobs[0].Lease, Verb: store.Done}, {Lease: got.Jobs[1].Lease, Verb: store.Bury},
		{Lease: got.Jobs[2].Lease, Verb: store.Retry, Delay: time.Hour}})
	if err := f.q.Delete(f.ctx, "t", occurrence(4).ID, nil); err != nil {
		t.Fatal(err)
	}
	states := func() (all string) {
		for _, one := range f.cursor(t).Last {
			all += fmt.Sprint(one.State, " ")
		}
		return all
	}
	if got := states(); got != "done dead delayed deleted " {
		t.Error(got)
	}
	if _, err := f.q.RunNow(f.ctx, "t", occurrence(2).ID, nil); err != nil {
		t.Fatal(err)
	}
	if got := states(); got != "done ready delayed deleted " {
		t.Error(got)
	}
}

// TestAnOccurrenceIsNotPushedEarly, by the clock of the shard.
func TestAnOccurrenceIsNotPushedEarly(t *testing.T) {
	f := newFixture(t)
	f.schedule(t)
	early := firing(0, 1, "allow")
	early.New = time.Now().Add(time.Minute)
	if got := f.fire(t, early)[0]; got.What != store.FiredEarly || got.Noted != nil {
		t.Errorf("%+v", got)
	}
	if c := f.cursor(t); !c.At.Equal(nominal(0)) || len(c.Last) != 0 {
		t.Errorf("%+v", c)
	}
}

// TestJobsBesideTheCursor: a manual run is no occurrence.
func TestJobsBesideTheCursor(t *testing.T) {
	f := newFixture(t)
	f.schedule(t)
	beside := store.Fire{Name: "report", Topic: "t", Revision: 1, Overlap: "allow", Jobs: []store.Push{occurrence(7)}}
	if got := f.fire(t, beside)[0]; got.What != store.FiredJobs || got.Results[0].Err != nil || got.Noted == nil {
		t.Errorf("%+v", got)
	}
	if c := f.cursor(t); !c.At.Equal(nominal(0)) || len(c.Last) != 0 {
		t.Errorf("%+v", c)
	}
	if job, err := f.q.Get(f.ctx, "t", occurrence(7).ID); err != nil || job.Schedule != "report" {
		t.Errorf("%+v, %v", job, err)
	}
}

// TestSharedFilesHaveNamesOfTheirOwn: they become one script, in which a second local of a name hides the first. Two
// are alternatives, with the same names.
func TestSharedFilesHaveNamesOfTheirOwn(t *testing.T) {
	const clock, instead = "lua/shared/clock.lua", "lua/shared/clock_standing.lua"
	files, err := filepath.Glob("lua/shared/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	in := map[string]string{}
	for _, file := range files {
		if file == instead {
			continue
		}
		for _, name := range localNames(t, file) {
			if other := in[name]; other != "" {
				t.Errorf("%s is in %s and %s", name, other, file)
			}
			in[name] = file
		}
	}
	if one, other := localNames(t, clock), localNames(t, instead); len(one) == 0 || !slices.Equal(one, other) {
		t.Errorf("%s has %q, %s has %q", clock, one, instead, other)
	}
}

var luaLocal = regexp.MustCompile(`(?m)^local (?:function )?([\w, ]+)`)

// localNames returns the locals of a file that are in no block.
func localNames(t *testing.T, file string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range luaLocal.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(names[1], ",") {
			list = append(list, strings.TrimSpace(name))
		}
	}
	return list
}
