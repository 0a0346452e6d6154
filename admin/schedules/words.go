package schedules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// timesListed is how many times of a day are listed one by one.
const timesListed = 6

// inWords says when a schedule's occurrences are. It is zero for an invalid rule.
func inWords(s *registry.Schedule) message.Message {
	rule, err := s.Rule()
	if err != nil {
		return message.Message{}
	}
	f, ok := rule.Fields()
	if !ok {
		return message.New("schedules.every", s.Every)
	}
	words := timesOf(&f)
	if days := daysOf(&f); !days.IsZero() {
		words = message.New("schedules.w_days", words, days)
	}
	if len(f.Months) > 0 {
		words = message.New("schedules.w_months", words, listed("schedules.month_", f.Months))
	}
	return words
}

// timesOf says at which times of a day they are.
func timesOf(f *calendar.Fields) message.Message {
	step, hours := stepOf(f.Minutes, minutesOfAnHour), stepOf(f.Hours, hoursOfADay)
	minutes := message.New("schedules.w_minutes", step)
	switch {
	case len(f.Minutes) == 0:
		minutes = message.New("schedules.w_minute")
	case step == 0:
		minutes = message.New("schedules.w_at_minute", ranges(f.Minutes, "%02d"))
	}
	onTheHour := slices.Equal(f.Minutes, []int{0})
	switch {
	case len(f.Hours) == 0 && onTheHour:
		return message.New("schedules.w_hourly")
	case hours > 0 && onTheHour:
		return message.New("schedules.w_every_hours", hours)
	case len(f.Hours) == 0 && len(f.Minutes) > 0 && step == 0:
		return message.New("schedules.w_every_hour", minutes)
	case len(f.Hours) == 0:
		return minutes
	case len(f.Minutes) == 0 || len(f.Minutes)*len(f.Hours) > timesListed:
		return message.New("schedules.w_hours", minutes, ranges(f.Hours, "%02d"))
	}
	var times []string
	for _, hour := range f.Hours {
		for _, minute := range f.Minutes {
			times = append(times, fmt.Sprintf("%02d:%02d", hour, minute))
		}
	}
	return message.New("schedules.w_at", strings.Join(times, ", "))
}

const minutesOfAnHour = 60

// stepOf returns n if the values are every n-th one of 0 to size-1, and otherwise 0.
func stepOf(values []int, size int) int {
	if len(values) < 2 || values[1] == 0 || len(values)*values[1] != size {
		return 0
	}
	for i, v := range values {
		if v != i*values[1] {
			return 0
		}
	}
	return values[1]
}

// daysOf says on which days they are; zero: on all, which goes without saying for more than one a day.
func daysOf(f *calendar.Fields) message.Message {
	weekdays := listed("schedules.weekday_", f.Weekdays)
	switch {
	case len(f.Days) > 0 && len(f.Weekdays) > 0 && f.EitherDay:
		return message.New("schedules.w_either_day", ranges(f.Days, "%d"), weekdays)
	case len(f.Days) > 0 && len(f.Weekdays) > 0:
		return message.New("schedules.w_both_days", ranges(f.Days, "%d"), weekdays)
	case len(f.Days) > 0:
		return message.New("schedules.w_day", ranges(f.Days, "%d"))
	case len(f.Weekdays) > 0:
		return message.New("schedules.w_weekday", weekdays)
	case len(f.Hours) > 0 && stepOf(f.Hours, hoursOfADay) == 0:
		return message.New("schedules.w_every_day")
	}
	return message.Message{}
}

// runs splits ascending numbers where one is left out.
func runs(numbers []int) (list [][]int) {
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1]+1 {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], n)
	}
	return list
}

// ranges writes numbers as 1–5, 8.
func ranges(numbers []int, form string) string {
	var parts []string
	for _, run := range runs(numbers) {
		text := fmt.Sprintf(form, run[0])
		switch len(run) {
		case 1:
		case 2:
			text += ", " + fmt.Sprintf(form, run[1])
		default:
			text += "–" + fmt.Sprintf(form, run[len(run)-1])
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// listed names numbers, such as days of the week. Sunday is the last of these.
func listed(key string, numbers []int) (all message.Message) {
	if key == "schedules.weekday_" && len(numbers) > 0 && numbers[0] == 0 {
		numbers = append(slices.Clone(numbers[1:]), 7)
	}
	named := func(n int) message.Message { return message.New(fmt.Sprint(key, n)) }
	for _, run := range runs(numbers) {
		part := named(run[0])
		switch len(run) {
		case 1:
		case 2:
			part = message.New("schedules.w_list", part, named(run[1]))
		default:
			part = message.New("schedules.w_range", part, named(run[len(run)-1]))
		}
		if all.IsZero() {
			all = part
		} else {
			all = message.New("schedules.w_list", all, part)
		}
	}
	return all
}

// clocks says what a change of the zone's clocks means for a rule.
type clocks struct {
	Says message.Message
	Next time.Time // the next change; zero: the zone has none
}

func clocksOf(s *registry.Schedule, rule *calendar.Rule, now time.Time) clocks {
	if s.Cron == "" {
		return clocks{Says: message.New("schedules.clocks_every")}
	}
	zone, err := calendar.Zone(s.TimeZone)
	if err != nil {
		return clocks{}
	}
	change := changeAfter(now.In(zone))
	switch {
	case change.IsZero():
		return clocks{Says: message.New("schedules.clocks_none", zone.String())}
	case rule.WallClock():
		return clocks{message.New("schedules.clocks_wall"), change}
	}
	return clocks{message.New("schedules.clocks_real"), change}
}

// changesRead is how many periods of a zone are read to find its next change: some have no change at their end.
const changesRead = 8

// changeAfter returns the next change of a zone's clocks; zero: there is none.
func changeAfter(now time.Time) time.Time {
	_, offset := now.Zone()
	for at, n := now, 0; n < changesRead; n++ {
		_, end := at.ZoneBounds()
		if end.IsZero() {
			break
		}
		if !end.After(at) {
			end = at.AddDate(0, 0, 1)
		}
		if _, now := end.Zone(); now != offset {
			return end
		}
		at = end
	}
	return time.Time{}
}

// moment is an instant, and how clocks in the schedule's zone show it.
type moment struct {
	At      time.Time
	Weekday string // key of its text
	Local   string
}

func momentsOf(s *registry.Schedule, list []time.Time) []moment {
	zone, err := calendar.Zone(s.TimeZone)
	if err != nil {
		zone = time.UTC
	}
	moments := make([]moment, len(list))
	for i, at := range list {
		local := at.In(zone)
		form := "2006-01-02 15:04 -07:00"
		if local.Second() != 0 {
			form = "2006-01-02 15:04:05 -07:00"
		}
		moments[i] = moment{at, weekdayKey(local), local.Format(form)}
	}
	return moments
}
