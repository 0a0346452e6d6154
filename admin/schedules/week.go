package schedules

import (
	"fmt"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

const (
	daysOfAWeek = 7
	hoursOfADay = 24

	// weekMost is how many occurrences a schedule may have in a week to be counted: one every 15 minutes has 672.
	weekMost = 1000
	// weekTime limits the counting: a schedule with an occurrence an hour takes a fifth of a millisecond.
	weekTime = 300 * time.Millisecond
	// heats is how many colours an hour may have.
	heats = 5
	// busiestListed is how many minutes are listed in which several schedules come at once.
	busiestListed = 5
	namesListed   = 3
)

// week counts the occurrences of schedules in a week, by hour and minute.
type week struct {
	Days     []weekDay
	Busiest  []*minute // minutes with more than one occurrence, those with most first
	Counted  int       // schedules
	Of       int
	Frequent int // schedules that are left out, because they have more than Most occurrences
	Most     int
}

type weekDay struct {
	At      time.Time
	Weekday string // key of its text
	Date    string
	Hours   [hoursOfADay]hour
}

// hour has the occurrences of an hour of local time.
type hour struct {
	Hour, N int
	Busiest *minute
	Heat    int // 0 to heats
}

// minute has the occurrences of a minute.
type minute struct {
	At    time.Time
	Local string
	N     int
	Names []string // the first ones
}

// More returns how many occurrences are of schedules that are not named.
func (m *minute) More() int { return m.N - len(m.Names) }

// newWeek counts from the midnight before now on, in the zone of now.
func newWeek(list []*registry.Schedule, now time.Time) *week {
	start := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	w := &week{Most: weekMost, Of: len(list), Days: make([]weekDay, daysOfAWeek)}
	minutes, began := map[int64]*minute{}, time.Now()
	for _, s := range list {
		if time.Since(began) > weekTime {
			break
		}
		w.Counted++
		w.count(s, start, minutes)
	}
	w.fill(start, minutes)
	return w
}

// count adds the occurrences of a schedule.
func (w *week) count(s *registry.Schedule, start time.Time, minutes map[int64]*minute) {
	rule, err := s.Rule()
	after, end := start.Add(-time.Second), start.AddDate(0, 0, daysOfAWeek).Add(-time.Second)
	if paused := s.IsPaused(start); err != nil || paused && s.PausedUntil.IsZero() {
		return
	} else if paused {
		after = s.PausedUntil.Add(-time.Millisecond)
	}
	found := rule.Between(after, end, weekMost+1)
	if len(found) > weekMost {
		w.Frequent++
		return
	}
	for _, at := range found {
		m := minutes[at.Unix()/60]
		if m == nil {
			m = &minute{At: at.Truncate(time.Minute)}
			minutes[at.Unix()/60] = m
		}
		m.N++
		if len(m.Names) < namesListed && !slices.Contains(m.Names, s.Name) {
			m.Names = append(m.Names, s.Name)
		}
	}
}

// fill puts the minutes into their hours.
func (w *week) fill(start time.Time, minutes map[int64]*minute) {
	index := map[string]int{}
	for i := range w.Days {
		day := &w.Days[i]
		day.At = start.AddDate(0, 0, i)
		day.Date = day.At.Format(time.DateOnly)
		day.Weekday = weekdayKey(day.At)
		index[day.Date] = i
		for n := range day.Hours {
			day.Hours[n].Hour = n
		}
	}
	most := 0
	for _, m := range minutes {
		local := m.At.In(start.Location())
		m.Local = local.Format("15:04")
		h := &w.Days[index[local.Format(time.DateOnly)]].Hours[local.Hour()]
		if h.N += m.N; h.Busiest == nil || m.N > h.Busiest.N || m.N == h.Busiest.N && m.At.Before(h.Busiest.At) {
			h.Busiest = m
		}
		most = max(most, h.N)
		if m.N > 1 {
			w.Busiest = append(w.Busiest, m)
		}
	}
	for i := range w.Days {
		for n := range w.Days[i].Hours {
			h := &w.Days[i].Hours[n]
			h.Heat = (h.N*heats + most - 1) / max(most, 1)
		}
	}
	slices.SortFunc(w.Busiest, func(a, b *minute) int {
		if a.N != b.N {
			return b.N - a.N
		}
		return a.At.Compare(b.At)
	})
	w.Busiest = w.Busiest[:min(len(w.Busiest), busiestListed)]
}

// weekdayKey returns the key of the text of a day: 1 is Monday, 7 Sunday.
func weekdayKey(at time.Time) string {
	return fmt.Sprint("schedules.weekday_", (int(at.Weekday())+daysOfAWeek-1)%daysOfAWeek+1)
}
