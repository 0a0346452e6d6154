package store_test

import (
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/internal/store"
)

// modelSchedule is the expected state of a schedule of the topic a, with an occurrence each minute.
type modelSchedule struct {
	rev     int64
	at      int      // minutes since the first one
	last    []string // ids
	overlap int
}

var scheduleNames = []string{"s", "s2"}

// minute is the nominal time of an occurrence; all of them have come.
func minute(n int) time.Time { return time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC) }

// Place gives a schedule a new definition, and sometimes another cursor, or removes it; sometimes by an older state.
func (m *model) Place(t *rapid.T) {
	name := rapid.SampledFrom(scheduleNames).Draw(t, "schedule")
	was := m.schedules[name]
	m.n++
	known := rapid.SampledFrom([]int64{0, m.rev(name), int64(m.n)}).Draw(t, "known definition")
	c := store.CursorChange{Name: name, Topic: "a", Was: &known, Revision: int64(m.n)}
	at := rapid.SampledFrom([]int{-1, 0, 3, 50}).Draw(t, "cursor")
	if at < 0 && was == nil {
		at = 0
	}
	if at >= 0 {
		c.Cursor = minute(at)
	}
	if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
		c.Topic = ""
	}
	done, err := m.s.BucketOf("a").SetCursor(t.Context(), c)
	switch {
	case c.Topic == "" && was == nil:
		if done != nil || err != nil {
			t.Fatalf("removing nothing: %+v, %v", done, err)
		}
		return
	case known != m.rev(name):
		if !errors.Is(err, store.ErrDefinition) {
			t.Fatalf("a change after definition %d, which is %d: %v", known, m.rev(name), err)
		}
		return
	case err != nil:
		t.Fatal(err)
	case c.Topic == "":
		delete(m.schedules, name)
		return
	case was == nil:
		was = &modelSchedule{}
		m.schedules[name] = was
	}
	if was.rev = c.Revision; at >= 0 {
		was.at = at
	}
}

func (m *model) rev(name string) int64 {
	if s := m.schedules[name]; s != nil {
		return s.rev
	}
	return 0
}

// Fire pushes occurrences, sometimes as a process that knows an older definition or cursor.
func (m *model) Fire(t *rapid.T) {
	name := rapid.SampledFrom(scheduleNames).Draw(t, "schedule")
	s, n := m.schedules[name], rapid.IntRange(0, 3).Draw(t, "occurrences")
	f := store.Fire{Name: name, Topic: "a", Revision: m.rev(name),
		Overlap: rapid.SampledFrom([]string{"skip", "replace", "allow"}).Draw(t, "overlap")}
	at := 0
	if s != nil {
		at = s.at
	}
	old := rapid.SampledFrom([]string{"", "", "", "definition", "cursor"}).Draw(t, "old")
	switch old {
	case "definition":
		f.Revision++
	case "cursor":
		at--
	}
	f.Cursor, f.New = minute(at), minute(at+max(1, n))
	for k := range n {
		nominal := minute(at + k + 1)
		f.Jobs = append(f.Jobs, store.Push{
			Topic: "a", ID: name + "@" + nominal.Format(time.RFC3339), DueAt: nominal, Body: []byte("occurrence"),
			Priority: store.Normal, Schedule: name, For: nominal, OnDuplicate: store.Keep,
		})
	}
	want := store.FiredJobs
	switch {
	case s == nil:
		want = store.FiredNone
	case old == "definition":
		want = store.FiredOther
	case old == "cursor":
		want = store.FiredMoved
	case n > 0 && m.keepsOut(s, f.Overlap):
		want = store.FiredSkipped
	}
	fired, _, err := m.s.BucketOf("a").Fire(t.Context(), []store.Fire{f})
	if err != nil || fired[0].What != want {
		t.Fatalf("fire %+v: %+v, %v; want %s", f, fired, err, want)
	}
	switch want {
	case store.FiredSkipped:
		s.overlap += n
		s.at += n
	case store.FiredJobs:
		s.at += max(1, n)
		m.fired(t, s, f.Jobs, fired[0].Results)
	}
}

// keepsOut does what overlap does with the occurrence before.
func (m *model) keepsOut(s *modelSchedule, overlap string) bool {
	if len(s.last) == 0 || overlap == "allow" {
		return false
	}
	key := "a/" + s.last[len(s.last)-1]
	j := m.jobs[key]
	switch {
	case j == nil || j.state == store.Dead:
		return false
	case overlap == "skip":
		return true
	case j.state == store.Running:
		j.ends = true
	default:
		delete(m.jobs, key)
	}
	return false
}

func (m *model) fired(t *rapid.T, s *modelSchedule, jobs []store.Push, results []store.Result) {
	for i, p := range jobs {
		key := "a/" + p.ID
		if exists := m.jobs[key] != nil; results[i].Err != nil || results[i].Duplicate != exists {
			t.Fatalf("pushed %s, which existed: %v: %+v", p.ID, exists, results[i])
		}
		if !results[i].Duplicate {
			m.jobs[key] = &modelJob{state: store.Ready, body: string(p.Body), priority: p.Priority}
			delete(m.done, key)
		}
		s.last = append(s.last, p.ID)
		if s.last = s.last[max(0, len(s.last)-10):]; len(m.made) < 8 {
			m.made = append(m.made, p.ID)
		}
	}
}

// checkSchedules checks the cursors, the last occurrences and how many were left out.
func (m *model) checkSchedules(t *rapid.T) {
	for _, name := range scheduleNames {
		got, err := m.s.BucketOf("a").Cursor(t.Context(), name)
		want := m.schedules[name]
		if err != nil || (got == nil) != (want == nil) {
			t.Fatalf("schedule %s: %+v, %v; want %+v", name, got, err, want)
		}
		if want == nil {
			continue
		}
		var ids []string
		for _, o := range got.Last {
			ids = append(ids, o.ID)
		}
		if got.Revision != want.rev || !got.At.Equal(minute(want.at)) || fmt.Sprint(ids) != fmt.Sprint(want.last) ||
			got.LeftOut["overlap"] != want.overlap {
			t.Fatalf("schedule %s: %+v; want %+v", name, got, want)
		}
	}
}

func (m *model) removeSchedules(t *rapid.T) {
	for _, name := range scheduleNames {
		if _, err := m.s.BucketOf("a").SetCursor(t.Context(), store.CursorChange{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}
