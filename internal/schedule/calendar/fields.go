package calendar

import (
	"math/bits"
	"time"
)

// fields has the values that a cron expression accepts, as bits.
type fields struct {
	minutes, hours, days, months, weekdays uint64

	wallClock bool // neither minute nor hour begins with "*"
	eitherDay bool // both day fields are restricted
}

// Fields are the values that a cron expression accepts, in ascending order. A field without values accepts all.
type Fields struct {
	Minutes, Hours, Days, Months []int
	Weekdays                     []int // 0 is Sunday
	EitherDay                    bool  // a day needs to match only one of Days and Weekdays
}

// Fields returns what the rule's cron expression accepts; ok is false if it has none.
func (r *Rule) Fields() (f Fields, ok bool) {
	if r.every > 0 {
		return f, false
	}
	c := &r.cron
	return Fields{
		Minutes: values(c.minutes, 0, 59), Hours: values(c.hours, 0, 23), Days: values(c.days, 1, 31),
		Months: values(c.months, 1, 12), Weekdays: values(c.weekdays, 0, 6), EitherDay: c.eitherDay,
	}, true
}

// values returns the numbers of the bits that are set, and none if all are.
func values(set uint64, first, last int) (list []int) {
	for n := first; n <= last; n++ {
		if set>>n&1 == 1 {
			list = append(list, n)
		}
	}
	if len(list) == last-first+1 {
		return nil
	}
	return list
}

// everyWeek multiplies the days of a week to those of six.
const everyWeek = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35

// month returns the days of a month that match, from bit 1 on.
func (f *fields) month(year int, month time.Month) uint64 {
	if f.months>>month&1 == 0 {
		return 0
	}
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday()
	length := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	weekdays := f.weekdays * everyWeek >> first << 1
	matching := f.days & weekdays
	if f.eitherDay {
		matching = f.days | weekdays
	}
	return matching & (2<<length - 2)
}

// first returns the first local time in [from, until) that matches. Local times are in seconds, like Unix time.
func (f *fields) first(from, until int64) (int64, bool) {
	for at := from; at < until; {
		t := time.Unix(at, 0).UTC()
		year, month, today := t.Date()
		midnight := t.Truncate(day * time.Second).Unix()
		left := f.month(year, month) >> today
		if left&1 == 1 {
			if minute := f.minute(int(at-midnight+59) / 60); minute < 24*60 {
				found := midnight + int64(minute)*60
				return found, found < until
			}
			left--
		}
		at = midnight + int64(bits.TrailingZeros64(left))*day
		if left == 0 {
			at = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Unix()
		}
	}
	return 0, false
}

// minute returns the first matching minute of a day from a given one on; 24*60 or more: there is none.
func (f *fields) minute(from int) int {
	hour := from / 60
	if left := f.minutes >> (from % 60); f.hours>>hour&1 == 1 && left != 0 {
		return from + bits.TrailingZeros64(left)
	}
	hour += 1 + bits.TrailingZeros64(f.hours>>(hour+1))
	return hour*60 + bits.TrailingZeros64(f.minutes)
}
