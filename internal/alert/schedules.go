package alert

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	schedulesEvery = time.Minute      // reading 10,000 takes 0.2 s of CPU time
	scheduleGrace  = 10 * time.Second // for clocks that differ, and for what happens while states are read
	leftOutSpan    = time.Hour
	deadInARow     = 3
	schedulesNamed = 3
)

// scheduled is what a Watch found out about schedules.
type scheduled struct {
	known map[string]*watchedSchedule
	at    time.Time
	found []Finding
	err   error
}

// watchedSchedule is what a Watch knows about a schedule.
type watchedSchedule struct {
	*registry.Schedule
	cursor *store.Cursor // when it was last read; nil: it is unknown
	left   int           // how many late ones were left out lately, until
	leftAt time.Time
}

// schedules finds schedules whose next occurrence is later than its max_late, whose last occurrences are dead, or which
// left out late ones lately. Those of a topic are one cause of its alert. With an error, some could not be read: what
// was last known about them counts.
func (w *Watch) schedules(ctx context.Context, now time.Time) ([]Finding, error) {
	if w.src.Schedules == nil || now.Sub(w.scheduled.at) < schedulesEvery {
		return w.scheduled.found, w.scheduled.err
	}
	w.scheduled.at, w.scheduled.err = now, w.readSchedules(ctx, now)
	w.scheduled.found = w.judgeSchedules(now)
	return w.scheduled.found, w.scheduled.err
}

func (w *Watch) readSchedules(ctx context.Context, now time.Time) (err error) {
	all, known := w.src.Snapshot().Schedules, w.scheduled.known
	maps.DeleteFunc(known, func(name string, k *watchedSchedule) bool { return all.Get(name) != k.Schedule })
	var list []*registry.Schedule
	for name, def := range all.All() {
		list = append(list, def)
		if known[name] == nil {
			known[name] = &watchedSchedule{Schedule: def}
		}
	}
	for _, v := range w.src.Schedules(ctx, list) {
		if v.Err != nil {
			err = v.Err
			continue
		}
		known[v.Name].read(v.Cursor, now)
	}
	return err
}

// read takes over a schedule's state.
func (k *watchedSchedule) read(c *store.Cursor, now time.Time) {
	if c != nil && c.Revision != k.Revision { // it is being changed
		c = nil
	}
	if c != nil && k.cursor != nil && c.LeftOut["late"] > k.cursor.LeftOut["late"] {
		k.left, k.leftAt = k.left+c.LeftOut["late"]-k.cursor.LeftOut["late"], now
	}
	if now.Sub(k.leftAt) > leftOutSpan {
		k.left = 0
	}
	k.cursor = c
}

// dying reports whether the last deadInARow occurrences are dead.
func (k *watchedSchedule) dying() bool {
	if k.cursor == nil || len(k.cursor.Last) < deadInARow {
		return false
	}
	newest := k.cursor.Last[len(k.cursor.Last)-deadInARow:]
	return !slices.ContainsFunc(newest, func(o store.Occurrence) bool { return o.State != store.Dead })
}

// lateBy returns how late an occurrence is that should have been pushed or left out, and how late it may be; 0: there
// is none.
func (k *watchedSchedule) lateBy(now time.Time) (late, limit time.Duration) {
	policy, err := k.Policy()
	if err != nil || k.cursor == nil || k.IsPaused(now.Add(-scheduleGrace)) {
		return 0, 0
	}
	for _, at := range recurring.Next(k.Schedule, k.cursor.At, 1) {
		if deadline := policy.Deadline(at); now.After(deadline.Add(scheduleGrace)) {
			late, limit = now.Sub(at), deadline.Sub(at)
		}
	}
	return late, limit
}

func (w *Watch) judgeSchedules(now time.Time) (list []Finding) {
	found, names := map[string]*Finding{}, map[string][]string{}
	add := func(k *watchedSchedule, kind string, severity string) *Finding {
		id := kind + "/" + k.Topic
		if found[id] == nil {
			found[id] = &Finding{Topic: k.Topic, Cause: Cause{Kind: kind, Severity: severity}}
		}
		found[id].N++
		names[id] = append(names[id], k.Name)
		return found[id]
	}
	for _, name := range slices.Sorted(maps.Keys(w.scheduled.known)) {
		k := w.scheduled.known[name]
		topic := w.src.Snapshot().Topic(k.Topic)
		if topic == nil || topic.State == registry.TopicOffline { // nothing is pushed
			continue
		}
		if late, limit := k.lateBy(now); late > 0 {
			if f := add(k, "schedule_late", Warning); late > f.For {
				f.For, f.Limit = late.Round(time.Second), limit
			}
		}
		if k.dying() {
			add(k, "schedule_dead", Warning)
		}
		if k.left > 0 {
			add(k, "schedule_left_out", Info).Of += int64(k.left)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		text := strings.Join(names[id][:min(len(names[id]), schedulesNamed)], ", ")
		if len(names[id]) > schedulesNamed {
			text += ", …"
		}
		found[id].Text = message.Plain(text)
		list = append(list, *found[id])
	}
	return list
}
