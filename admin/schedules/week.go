package schedules

import (
	"maps"
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
	// heats is how many colors an hour may have.
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
	most     int // occurrences in an hour
}

// Heat returns the color of an hour with n occurrences, from 1 to heats.
func (w *week) Heat(n int) int { return (n*heats + w.most - 1) / w.most }

type weekDay struct {
	time.Time
	Hours [hoursOfADay]hour
}

// hour has the occurrences of an hour of local time.
type hour struct {
	N       int
	Busiest *minute
}

// minute has the occurrences of a minute of local time.
type minute struct {
	At    time.Time
	N     int
	Names []string // the first ones
}

// More returns how many occurrences are of schedules that are not named.
func (m *minute) More() int { return m.N - len(m.Names) }

// newWeek counts from the midnight before now on, in the zone of now.
func newWeek(list []*registry.Schedule, now time.Time) *week {
	w := &week{Most: weekMost, Of: len(list)}
	for i := range daysOfAWeek {
		midnight := time.Date(now.Year(), now.Month(), now.Day()+i, 0, 0, 0, 0, now.Location())
		w.Days = append(w.Days, weekDay{Time: midnight})
	}
	minutes, began := map[int64]*minute{}, time.Now()
	for _, s := range list {
		if time.Since(began) > weekTime {
			break
		}
		w.Counted++
		w.count(s, minutes)
	}
	w.fill(minutes)
	return w
}

// count adds the occurrences of a schedule to the minutes.
func (w *week) count(s *registry.Schedule, minutes map[int64]*minute) {
	start := w.Days[0].Time
	found := occurrences(s, start, start.AddDate(0, 0, daysOfAWeek))
	if len(found) > weekMost {
		w.Frequent++
		return
	}
	for _, at := range found {
		m := minutes[at.Unix()/60]
		if m == nil {
			m = &minute{At: at.Truncate(time.Minute).In(start.Location())}
			minutes[at.Unix()/60] = m
		}
		m.N++
		if len(m.Names) < namesListed && !slices.Contains(m.Names, s.Name) {
			m.Names = append(m.Names, s.Name)
		}
	}
}

// occurrences returns those in [from, until) that will be pushed, at most one more than are counted.
func occurrences(s *registry.Schedule, from, until time.Time) []time.Time {
	rule, err := s.Rule()
	if err != nil || s.IsPaused(until) {
		return nil
	}
	if s.IsPaused(from) {
		from = s.PausedUntil
	}
	return rule.Between(from.Add(-time.Millisecond), until.Add(-time.Millisecond), weekMost+1)
}

// fill puts the minutes into their hours, those with most occurrences first.
func (w *week) fill(minutes map[int64]*minute) {
	days := map[int]*weekDay{}
	for i := range w.Days {
		days[w.Days[i].Day()] = &w.Days[i]
	}
	for _, m := range slices.SortedFunc(maps.Values(minutes), busierFirst) {
		h := &days[m.At.Day()].Hours[m.At.Hour()]
		h.N += m.N
		w.most = max(w.most, h.N)
		if h.Busiest == nil {
			h.Busiest = m
		}
		if m.N > 1 && len(w.Busiest) < busiestListed {
			w.Busiest = append(w.Busiest, m)
		}
	}
}

func busierFirst(a, b *minute) int {
	if a.N != b.N {
		return b.N - a.N
	}
	return a.At.Compare(b.At)
}
