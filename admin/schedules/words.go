package schedules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// told describes the rule of a schedule.
type told struct {
	Words    message.Message
	Upcoming []time.Time // by the clocks of Zone
	Zone     string
	ZoneData string    // the release of the time zones
	Clocks   string    // what a change of clocks means: key of its text
	Change   time.Time // the next one; zero: there is none
}

func tell(s *registry.Schedule, now time.Time) (told, error) {
	rule, err := s.Rule()
	if err != nil {
		return told{}, err
	}
	zone := zoneOf(s)
	d := told{Words: inWords(s), Zone: zone.String(), ZoneData: calendar.ZoneData(),
		Upcoming: inZone(zone, recurring.Next(s, now, recurring.ToldNext))}
	if s.Cron == "" {
		d.Clocks = "schedules.clocks_every"
		return d, nil
	}
	d.Change = changeAfter(now.In(zone))
	switch {
	case d.Change.IsZero():
		d.Clocks = "schedules.clocks_none"
	case rule.WallClock():
		d.Clocks = "schedules.clocks_wall"
	default:
		d.Clocks = "schedules.clocks_real"
	}
	return d, nil
}

func zoneOf(s *registry.Schedule) *time.Location {
	zone, err := calendar.Zone(s.TimeZone)
	if err != nil {
		return time.UTC
	}
	return zone
}

func inZone(zone *time.Location, list []time.Time) (local []time.Time) {
	for _, at := range list {
		local = append(local, at.In(zone))
	}
	return local
}

// changeAfter returns the next change of a zone's clocks, at most a year ahead; zero: there is none.
func changeAfter(now time.Time) time.Time {
	_, offset := now.Zone()
	for days := range 366 {
		at := now.AddDate(0, 0, days+1)
		if _, changed := at.Zone(); changed != offset {
			change, _ := at.ZoneBounds()
			return change
		}
	}
	return time.Time{}
}

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
	if days := daysOf(&f); days != nil {
		words = message.New("schedules.w_days", words, days)
	}
	if len(f.Months) > 0 {
		month := func(n int) any { return message.New("schedules.month_" + time.Month(n).String()) }
		words = message.New("schedules.w_months", words, listed(f.Months, month))
	}
	return words
}

const (
	minutesOfAnHour = 60
	timesListed     = 6 // of a day, one by one
)

// timesOf says at which times of a day they are.
func timesOf(f *calendar.Fields) message.Message {
	minutes, hours := stepOf(f.Minutes, minutesOfAnHour), stepOf(f.Hours, hoursOfADay)
	times := len(f.Minutes) * len(f.Hours)
	switch {
	case hours > 0 && slices.Equal(f.Minutes, []int{0}):
		return message.New("schedules.w_hours", hours)
	case times > 0 && times <= timesListed:
		return message.New("schedules.w_at", dayTimes(f))
	}
	words := message.New("schedules.w_minutes", minutes)
	if minutes == 0 {
		words = message.New("schedules.w_at_minute", listed(f.Minutes, twoDigits))
	}
	if len(f.Hours) > 0 {
		words = message.New("schedules.w_of_hours", words, listed(f.Hours, twoDigits))
	}
	return words
}

func twoDigits(n int) any { return fmt.Sprintf("%02d", n) }

// dayTimes writes each time of a day: 08:00, 20:00.
func dayTimes(f *calendar.Fields) string {
	var times []string
	for _, hour := range f.Hours {
		for _, minute := range f.Minutes {
			times = append(times, fmt.Sprintf("%02d:%02d", hour, minute))
		}
	}
	return strings.Join(times, ", ")
}

// stepOf returns n if the values are every n-th one of 0 to size-1, and otherwise 0. No values are all.
func stepOf(values []int, size int) int {
	if len(values) == 0 {
		return 1
	}
	step := size / len(values)
	if len(values) == 1 || len(values)*step != size {
		return 0
	}
	for i, v := range values {
		if v != i*step {
			return 0
		}
	}
	return step
}

// daysOf says on which days they are; nil: on all, which goes without saying for more than one a day.
func daysOf(f *calendar.Fields) any {
	days := listed(f.Days, func(n int) any { return n })
	weekdays := f.Weekdays
	if len(weekdays) > 0 && weekdays[0] == 0 { // Sunday is the last
		weekdays = append(weekdays[1:], daysOfAWeek)
	}
	named := listed(weekdays, func(n int) any {
		return message.New("schedules.weekday_" + time.Weekday(n%daysOfAWeek).String())
	})
	switch {
	case days != nil && named != nil && f.EitherDay:
		return message.New("schedules.w_either_day", days, named)
	case days != nil && named != nil:
		return message.New("schedules.w_both_days", days, named)
	case days != nil:
		return message.New("schedules.w_day", days)
	case named == nil && stepOf(f.Hours, hoursOfADay) == 0:
		return message.New("schedules.w_every_day")
	}
	return named
}

// listed names ascending numbers; three or more in a row by the first and the last. It is nil for none.
func listed(numbers []int, name func(int) any) (all any) {
	for len(numbers) > 0 {
		part, run := name(numbers[0]), 1
		for run < len(numbers) && numbers[run] == numbers[0]+run {
			run++
		}
		if run > 2 {
			part = message.New("schedules.w_range", part, name(numbers[run-1]))
		} else {
			run = 1
		}
		if all != nil {
			part = message.New("schedules.w_list", all, part)
		}
		all, numbers = part, numbers[run:]
	}
	return all
}
