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
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	// The states of schedules with an occurrence since they were last read, which may be late, are read every
	// schedulesEvery, the others seldom: reading 10,000 takes 0.2 s of CPU time.
	schedulesEvery  = 30 * time.Second
	schedulesSeldom = 5 * time.Minute
	schedulesAtOnce = 500
	scheduleGrace   = 10 * time.Second // for clocks that differ, and for what happens while states are read
	leftOutSpan     = time.Hour
	deadInARow      = 3
	schedulesNamed  = 3
)

// watchedSchedule is what a Watch knows about a schedule.
type watchedSchedule struct {
	def    *registry.Schedule
	policy *schedule.Policy // nil: the definition is invalid
	readAt time.Time
	at     time.Time // the cursor when it was last read; zero: it is unknown
	next   time.Time // the occurrence after it; zero: there is none
	dying  bool      // the last deadInARow occurrences are dead
	late   int       // how many were left out because they were late, when it was last read
	left   int       // by how much late grew lately, until
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

// scheduled is what a Watch found out about schedules.
type scheduled struct {
	known map[string]*watchedSchedule
	at    time.Time
	found []Finding
	err   error
}

func (w *Watch) readSchedules(ctx context.Context, now time.Time) (err error) {
	all, known := w.src.Snapshot().Schedules, w.scheduled.known
	maps.DeleteFunc(known, func(name string, k *watchedSchedule) bool { return all.Get(name) != k.def })
	var list []*registry.Schedule
	for name, def := range all.All() {
		if known[name] == nil {
			policy, _ := def.Policy() // an invalid one is not pushed
			known[name] = &watchedSchedule{def: def, policy: policy}
		}
		if known[name].changes(now) {
			list = append(list, def)
		}
	}
	for some := range slices.Chunk(list, schedulesAtOnce) {
		for _, v := range w.src.Schedules(ctx, some) {
			if v.Err != nil {
				err = v.Err
				continue
			}
			known[v.Name].read(&v, now)
		}
	}
	return err
}

// changes reports whether a schedule's state is to be read.
func (k *watchedSchedule) changes(now time.Time) bool {
	came := !k.next.IsZero() && !k.next.After(now) && !k.def.IsPaused(now)
	return k.at.IsZero() || came || k.dying || now.Sub(k.readAt) >= schedulesSeldom
}

// read takes over a schedule's state.
func (k *watchedSchedule) read(v *recurring.View, now time.Time) {
	c := v.Cursor
	k.readAt = now
	if c == nil || c.Revision != k.def.Revision { // it is being changed
		k.at = time.Time{}
		return
	}
	alive := func(o store.Occurrence) bool { return o.State != store.Dead }
	newest := c.Last[max(0, len(c.Last)-deadInARow):]
	k.dying = len(newest) == deadInARow && !slices.ContainsFunc(newest, alive)
	if late := c.LeftOut["late"]; !k.at.IsZero() && late > k.late {
		k.left, k.leftAt = k.left+late-k.late, now
	}
	k.at, k.late = c.At, c.LeftOut["late"]
	if k.policy != nil {
		k.next, _ = k.policy.Rule.Next(k.at)
	}
}

// lateBy returns how late an occurrence is that should have been pushed or left out, and how late it may be; 0: there
// is none.
func (k *watchedSchedule) lateBy(now time.Time) (late, limit time.Duration) {
	at := k.next
	if k.policy == nil || k.at.IsZero() || k.def.IsPaused(now.Add(-scheduleGrace)) {
		return 0, 0
	}
	if end := k.def.PausedUntil.Add(-time.Millisecond); k.def.State == registry.TopicPaused && end.After(k.at) {
		at, _ = k.policy.Rule.Next(end)
	}
	if at.IsZero() {
		return 0, 0
	}
	deadline := k.policy.Deadline(at)
	if !now.After(deadline.Add(scheduleGrace)) {
		return 0, 0
	}
	return now.Sub(at), deadline.Sub(at)
}

func (w *Watch) judgeSchedules(now time.Time) (list []Finding) {
	found, names := map[string]*Finding{}, map[string][]string{}
	add := func(k *watchedSchedule, c Cause) *Cause {
		id := c.Kind + "/" + k.def.Topic
		if found[id] == nil {
			found[id] = &Finding{Topic: k.def.Topic, Cause: c}
		}
		found[id].N++
		names[id] = append(names[id], k.def.Name)
		return &found[id].Cause
	}
	for _, name := range slices.Sorted(maps.Keys(w.scheduled.known)) {
		k := w.scheduled.known[name]
		topic := w.src.Snapshot().Topic(k.def.Topic)
		if topic == nil || topic.State == registry.TopicOffline { // nothing is pushed
			continue
		}
		if late, limit := k.lateBy(now); late > 0 {
			if c := add(k, Cause{Kind: "schedule_late", Severity: Warning}); late > c.For {
				c.For, c.Limit = late.Round(time.Second), limit
			}
		}
		if k.dying {
			add(k, Cause{Kind: "schedule_dead", Severity: Warning})
		}
		if now.Sub(k.leftAt) > leftOutSpan {
			k.left = 0
		}
		if k.left > 0 {
			add(k, Cause{Kind: "schedule_left_out", Severity: Info}).Of += int64(k.left)
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
