package calendar

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestWhatIsRefusedSaysWhereAndTheWayOut has the offset of each mistake, and the message.
func TestWhatIsRefusedSaysWhereAndTheWayOut(t *testing.T) {
	const five = "five fields: minute, hour, day of the month, month, day of the week"
	for _, c := range []struct {
		cron   string
		offset int
		want   string
	}{
		{"", 0, "column 1: cron is required: " + five},
		{" \t ", 0, "column 1: cron is required: " + five},
		{strings.Repeat("1,", 300) + "1 * * * *", 500, "column 501: cron must have at most 500 bytes"},
		{"0 8 * *", 7, "column 8: cron has 4 of " + five},
		{"hello", 5, "column 6: cron has 1 of " + five},
		{"0 0 8 * * 1-5", 10, "column 11: cron has more than " + five + `; for seconds, use "every"`},
		{"TZ=0", 0, `column 1: TZ is not supported: use "time_zone"`},
		{"TZ=Europe/Berlin 0 8 * * *", 0, `column 1: TZ is not supported: use "time_zone"`},
		{"  CRON_TZ=UTC 0 8 * * *", 2, `column 3: CRON_TZ is not supported: use "time_zone"`},
		{"@reboot", 0, "column 1: @reboot is not supported: a schedule does not depend on restarts"},
		{"@every 5m", 0, `column 1: @every is not supported: use "every" instead of "cron"`},
		{"@fortnightly", 0, "column 1: must be @hourly, @daily, @weekly, @monthly, @yearly or " + five},
		{"@ 8 * * *", 0, "column 1: must be @hourly, @daily, @weekly, @monthly, @yearly or " + five},
		{"@daily UTC", 7, "column 8: nothing may follow @daily"},
		{"0 8 ? * 1", 4, `column 5: "?" is not supported: write "*"`},
		{"0 8 L * *", 4, `column 5: "L" is not supported: write a day that every month has, 1 to 28`},
		{"0 8 l-3 * *", 4, `column 5: "l" is not supported: write a day that every month has, 1 to 28`},
		{"0 8 * * 5L", 8, `column 9: "5L" is not supported: write a day that every month has, 1 to 28`},
		{"0 8 15W * *", 4, `column 5: "15W" is not supported: write days of the week in the fifth field, such as 1-5`},
		{"0 8 1,LW * *", 6, `column 7: "LW" is not supported: write days of the week in the fifth field, such as 1-5`},
		{"0 8 * * 1#2", 8, `column 9: "1#2" is not supported: write the day of the week, and check the date in the callback`},
		{"0 8 * * mon#2", 8, `column 9: "mon#2" is not supported: write the day of the week, and check the date in the callback`},
		{"60 8 * * *", 0, `column 1: minute must be 0 to 59, not "60"`},
		{"0 24 * * *", 2, `column 3: hour must be 0 to 23, not "24"`},
		{"0 8 0 * *", 4, `column 5: day of the month must be 1 to 31, not "0"`},
		{"0 8 1-32 * *", 6, `column 7: day of the month must be 1 to 31, not "32"`},
		{"0 8 * 13 *", 6, `column 7: month must be 1 to 12 or jan to dec, not "13"`},
		{"0 8 * mon *", 6, `column 7: month must be 1 to 12 or jan to dec, not "mon"`},
		{"0 8 * april *", 6, `column 7: month must be 1 to 12 or jan to dec, not "april"`},
		{"0 8 jan * *", 4, `column 5: day of the month must be 1 to 31, not "jan"`},
		{"0 8 * * 1,jan", 10, `column 11: day of the week must be 0 to 7 or sun to sat, not "jan"`},
		{"0 8 * * 8", 8, `column 9: day of the week must be 0 to 7 or sun to sat, not "8"`},
		{"0,-5 8 * * *", 2, `column 3: minute must be 0 to 59, or like *, */2, 1-5 or 1-5/2, not "-5"`},
		{"+5 8 * * *", 0, `column 1: minute must be 0 to 59, not "+5"`},
		{"1_0 8 * * *", 0, `column 1: minute must be 0 to 59, not "1_0"`},
		{"99999999999999999999 8 * * *", 0, `column 1: minute must be 0 to 59, not "99999999999999999999"`},
		{"0 8,,9 * * *", 4, `column 5: hour must be 0 to 23, or like *, */2, 1-5 or 1-5/2, not ""`},
		{"0 8- * * *", 2, `column 3: hour must be 0 to 23, or like *, */2, 1-5 or 1-5/2, not "8-"`},
		{"0 *-8 * * *", 2, `column 3: hour must be 0 to 23, or like *, */2, 1-5 or 1-5/2, not "*-8"`},
		{"0 8-* * * *", 4, `column 5: hour must be 0 to 23, not "*"`},
		{"0 *8 * * *", 2, `column 3: hour must be 0 to 23, not "*8"`},
		{"0 1-2-3 * * *", 2, `column 3: hour must be 0 to 23, or like *, */2, 1-5 or 1-5/2, not "1-2-3"`},
		{"0 22-2 * * *", 2, `column 3: "22-2" ends before it begins: write 22-23,0-2`},
		{"0 8 * * fri-mon", 8, `column 9: "fri-mon" ends before it begins: write 5-7,0-1`},
		{"*/0 * * * *", 2, `column 3: step must be 1 to 59, not "0"`},
		{"*/90 * * * *", 2, `column 3: step must be 1 to 59, not "90"`},
		{"*/ * * * *", 0, `column 1: minute must be 0 to 59, or like *, */2, 1-5 or 1-5/2, not "*/"`},
		{"*/5/5 * * * *", 2, `column 3: step must be 1 to 59, not "5/5"`},
		{"0 0-20/x * * *", 7, `column 8: step must be 1 to 23, not "x"`},
		{"5/15 * * * *", 0, "column 1: a step needs a range: write 5-59/15"},
		{"0 8 30 2 *", 4, "column 5: never due in UTC: no such day in these months, or clocks always skip this time"},
		{"* * 31 2,4,6,9,nov *", 4, "column 5: never due in UTC: no such day in these months, or clocks always skip this time"},
	} {
		_, err := Parse(c.cron, "")
		var mistake *Error
		if !errors.As(err, &mistake) || err.Error() != c.want || mistake.Offset != c.offset {
			t.Errorf("%q: %v, want %s", c.cron, err, c.want)
		}
	}
	if _, err := Parse("* 2 8-14 3 */7", "America/New_York"); err == nil { // the hour that is always skipped
		t.Error("accepted what clocks always skip")
	}
}

func TestWhatMeansTheSame(t *testing.T) {
	for a, b := range map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 7", "@Monthly": "0 0 1 * *",
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 jan *", "\t0  8 * * Mon-FRI\n": "0 8 * * 1-5", "0 8 * * 0": "0 8 * * sun",
		"0 8 * * 5-7": "0 8 * * fri,sat,sun", "*/15 * * * *": "0-59/15 * * * *", "007 8 * * *": "7 8 * * *",
		"0 8 * DEC-dec *": "0 8 * 12 *", "0 0-23/6 * * *": "0 0,6,12,18 * * *", "0 8 * * 1-7/2": "0 8 * * 1,3,5,0",
		"0 8 31 2,3 *": "0 8 31 3 *",
	} {
		after := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		x, y := parsed(t, a, "UTC").Between(after, after.AddDate(3, 0, 0), 100), parsed(t, b, "UTC").Between(after, after.AddDate(3, 0, 0), 100)
		if len(x) != len(y) || len(x) == 0 {
			t.Fatalf("%s: %d, %s: %d", a, len(x), b, len(y))
		}
		for i := range x {
			if x[i] != y[i] {
				t.Errorf("%s: %v, %s: %v", a, x[i], b, y[i])
			}
		}
	}
}

// FuzzParse: nothing panics or runs on, a mistake is inside the text, and what is accepted has occurrences on whose order
// Next, Last, Count and Between agree.
func FuzzParse(f *testing.F) {
	for i, cron := range append(crons, "@daily", "TZ=0", "TZ=", "1-5/2,7 * 1,15 feb mon", "5/5 ? L W 1#2", "\xff é * * 29 2 */7") {
		f.Add(cron, uint8(i), int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, cron string, zone uint8, after int64) {
		name := zoneNames[int(zone)%len(zoneNames)]
		rule, err := Parse(cron, name)
		if err != nil {
			var mistake *Error
			if !errors.As(err, &mistake) || mistake.Offset < 0 || mistake.Offset > len(cron) {
				t.Fatalf("%q: %#v", cron, err)
			}
			return
		}
		at := time.Unix(max(earliest, min(after, 1<<33)), 0)
		next, ok := rule.Next(at)
		if !ok && at.Unix() > 1_300_000_000 || ok && !next.After(at) {
			t.Fatalf("%q in %s: after %v: %v, %v", cron, name, at, next, ok)
		}
		last, found := rule.Last(at, next)
		between := rule.Between(at, next, 2)
		if ok && (!found || last != next || rule.Count(at, next) != 1 || len(between) != 1) {
			t.Fatalf("%q in %s: (%v, %v]: last %v, between %v", cron, name, at, next, last, between)
		}
	})
}
