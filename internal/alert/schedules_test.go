package alert

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// timetable has the states of schedules.
type timetable struct {
	all    registry.Table[*registry.Schedule]
	known  map[string]*store.Cursor
	away   error
	reads  int
	topics registry.Table[*registry.Topic]
}

func (s *timetable) states(_ context.Context, list []*registry.Schedule) []recurring.View {
	s.reads++
	views := make([]recurring.View, len(list))
	for i, def := range list {
		views[i] = recurring.View{Schedule: def, Err: s.away}
		if s.away == nil {
			c := *s.known[def.Name]
			c.LeftOut = maps.Clone(c.LeftOut)
			views[i].Cursor = &c
		}
	}
	return views
}

func (s *timetable) add(def registry.Schedule) *store.Cursor {
	def.Revision = 1
	s.all = s.all.With(def.Name, &def)
	c := &store.Cursor{Topic: def.Topic, Revision: 1, At: time.Now(), LeftOut: map[string]int{}}
	s.known[def.Name] = c
	return c
}

func everyMinute(name string) registry.Schedule {
	def := registry.NewSchedule(name)
	def.Topic, def.Cron = "a", "* * * * *"
	return def
}

// newTimetable returns states, and a Watch of them with the topic a.
func newTimetable() (*timetable, *Watch, func(*testing.T) []Finding) {
	s := &timetable{known: map[string]*store.Cursor{}}
	topic := registry.NewTopic("a")
	s.topics = registry.NewTopics(&topic)
	w, _ := newWorld()
	watch := NewWatch(Sources{
		Queue: w, Activity: w, RegistryUp: func() bool { return true }, Journal: func() error { return nil },
		Snapshot:  func() *registry.Snapshot { return &registry.Snapshot{Topics: s.topics, Schedules: s.all} },
		Shards:    func() []ShardFinding { return w.shards },
		Schedules: s.states,
	})
	return s, watch, func(t *testing.T) []Finding {
		t.Helper()
		list, _ := watch.Find(t.Context(), Defaults().Rules)
		return slices.DeleteFunc(list, func(f Finding) bool { return f.Topic == "" })
	}
}

// TestALateScheduleIsFound once its occurrence is later than its max_late, and until it was pushed or left out. It does
// not matter that the shard does not answer any more. A schedule that is paused, or whose topic is offline, is not late.
func TestALateScheduleIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, round := newTimetable()
		c := s.add(everyMinute("report"))
		round(t)
		time.Sleep(time.Minute + scheduleGrace) // the occurrence is as late as it may be: a minute
		if list := round(t); len(list) != 0 {
			t.Errorf("found %+v too early", list)
		}
		s.away = errors.New("down")
		time.Sleep(time.Minute + schedulesEvery)
		list := round(t)
		if len(list) != 1 || list[0].Kind != "schedule_late" || list[0].Severity != Warning || list[0].Topic != "a" ||
			list[0].N != 1 || list[0].Limit != time.Minute || list[0].For < time.Minute ||
			list[0].Text.Error() != "report" {
			t.Fatalf("found %+v", list)
		}
		s.away = nil
		c.At = time.Now().Truncate(time.Minute)
		time.Sleep(schedulesEvery)
		if list := round(t); len(list) != 0 {
			t.Errorf("it was pushed, but found %+v", list)
		}

		paused := everyMinute("paused")
		paused.State = registry.TopicPaused
		s.add(paused)
		offline := everyMinute("offline")
		offline.Topic = "gone"
		s.add(offline)
		until := everyMinute("until")
		until.State, until.PausedUntil = registry.TopicPaused, time.Now().Add(time.Hour)
		s.add(until)
		for range 10 {
			c.At = time.Now().Truncate(time.Minute)
			if list := round(t); len(list) != 0 {
				t.Errorf("found %+v", list)
			}
			time.Sleep(schedulesEvery)
		}
		for time.Now().Before(until.PausedUntil.Add(3 * time.Minute)) {
			time.Sleep(schedulesEvery)
			c.At = time.Now().Truncate(time.Minute)
		}
		if list := round(t); len(list) != 1 || list[0].Text.Error() != "until" {
			t.Errorf("its pause has ended, but found %+v", list)
		}
	})
}

// TestAScheduleWhoseJobsDieIsFound when the last three are dead, until another one is pushed or ends well.
func TestAScheduleWhoseJobsDieIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, round := newTimetable()
		daily := everyMinute("report")
		daily.Cron = "@daily"
		c := s.add(daily)
		for _, name := range []string{"b", "c", "d"} { // not found: one is alive
			other := daily
			other.Name = name
			s.add(other).Last = []store.Occurrence{{State: store.Dead}, {State: store.Dead}, {State: store.Delayed}}
		}
		c.Last = []store.Occurrence{{State: store.Dead}, {State: store.Dead}}
		if list := round(t); len(list) != 0 {
			t.Errorf("found %+v", list)
		}
		c.Last = append(c.Last, store.Occurrence{State: store.Dead})
		time.Sleep(schedulesEvery)
		if list := round(t); len(list) != 1 || list[0].Kind != "schedule_dead" || list[0].N != 1 ||
			list[0].Text.Error() != "report" {
			t.Errorf("found %+v", list)
		}
		c.Last = append(c.Last, store.Occurrence{State: store.Finished})
		time.Sleep(schedulesEvery)
		if list := round(t); len(list) != 0 {
			t.Errorf("the last one was delivered, but found %+v", list)
		}
	})
}

// TestLateOccurrencesThatWereLeftOutAreFound for an hour, and only those since the watch began.
func TestLateOccurrencesThatWereLeftOutAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, round := newTimetable()
		daily := everyMinute("report")
		daily.Cron = "@daily"
		c := s.add(daily)
		c.LeftOut["late"] = 7
		round(t)
		c.LeftOut["late"], c.LeftOut["overlap"] = 9, 4
		time.Sleep(schedulesEvery)
		list := round(t)
		if len(list) != 1 || list[0].Kind != "schedule_left_out" || list[0].Severity != Info || list[0].Of != 2 {
			t.Fatalf("found %+v", list)
		}
		time.Sleep(leftOutSpan + schedulesEvery)
		if list := round(t); len(list) != 0 {
			t.Errorf("found %+v after an hour", list)
		}
	})
}

// TestSchedulesAreReadEveryMinute, and those that were deleted are forgotten.
func TestSchedulesAreReadEveryMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, watch, round := newTimetable()
		for _, name := range []string{"b", "c"} {
			s.add(everyMinute(name)).Revision = 2 // it is being changed
		}
		for range 13 { // a minute
			if list := round(t); len(list) != 0 {
				t.Errorf("found %+v", list)
			}
			time.Sleep(defaultEvery)
		}
		if s.reads != 2 {
			t.Errorf("they were read %d times", s.reads)
		}
		s.all = registry.Table[*registry.Schedule]{}
		time.Sleep(schedulesEvery)
		round(t)
		if len(watch.scheduled.known) != 0 {
			t.Errorf("%d schedules that were deleted are kept", len(watch.scheduled.known))
		}
	})
}
