package calendar

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWhenClocksChange: neither minute nor hour begins with "*": each wall-clock time once; in a gap, at the first instant
// after it, several in one gap as one; in a repeated hour, the first. Otherwise each real minute whose local time matches.
func TestWhenClocksChange(t *testing.T) {
	for _, c := range []struct{ zone, cron, after, want string }{
		// 2:00 to 3:00 skipped
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T12:00", "03-29T03:00+02 03-30T02:30+02"},
		{"Europe/Berlin", "0,15,30,45 2 * * *", "2026-03-28T12:00", "03-29T03:00+02 03-30T02:00+02"},
		{"Europe/Berlin", "0 2,3 * * *", "2026-03-28T12:00", "03-29T03:00+02 03-30T02:00+02"},
		{"Europe/Berlin", "30 2,3 * * *", "2026-03-28T12:00", "03-29T03:00+02 03-29T03:30+02 03-30T02:30+02"},
		{"Europe/Berlin", "*/30 * * * *", "2026-03-29T01:00", "03-29T01:30+01 03-29T03:00+02 03-29T03:30+02"},
		{"Europe/Berlin", "30 * * * *", "2026-03-29T01:00", "03-29T01:30+01 03-29T03:30+02"},
		{"Europe/Berlin", "*/20 2 * * *", "2026-03-28T12:00", "03-30T02:00+02 03-30T02:20+02"},
		// 2:00 to 3:00 repeated
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", "10-25T02:30+02 10-26T02:30+01"},
		{"Europe/Berlin", "0 2,3 * * *", "2026-10-24T12:00", "10-25T02:00+02 10-25T03:00+01"},
		{"Europe/Berlin", "0 * * * *", "2026-10-25T01:00", "10-25T02:00+02 10-25T02:00+01 10-25T03:00+01"},
		{"Europe/Berlin", "*/30 2 * * *", "2026-10-25T01:00", "10-25T02:00+02 10-25T02:30+02 10-25T02:00+01 10-25T02:30+01"},
		{"America/New_York", "30 1 * * sun", "2026-10-31T12:00", "11-01T01:30-04 11-08T01:30-05"},
		// midnight skipped, 23:00 to 24:00 repeated
		{"Africa/Cairo", "0 0 * * *", "2026-04-23T12:00", "04-24T01:00+03 04-25T00:00+03"},
		{"Africa/Cairo", "@daily", "2026-04-23T12:00", "04-24T01:00+03 04-25T00:00+03"},
		{"Africa/Cairo", "0 0 * * fri", "2026-04-22T12:00", "04-24T01:00+03 05-01T00:00+03"},
		{"Africa/Cairo", "30 23 * * *", "2026-10-29T12:00", "10-29T23:30+03 10-30T23:30+02"},
		{"America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00", "11-04T01:00-02 11-05T00:00-02"},
		{"America/Sao_Paulo", "59 23 * * *", "2018-02-17T12:00", "02-17T23:59-02 02-18T23:59-03"},
		// 30 December 2011 never was
		{"Pacific/Apia", "0 8 * * *", "2011-12-29T12:00", "12-31T00:00+14 12-31T08:00+14"},
		{"Pacific/Apia", "0 0 * * *", "2011-12-29T12:00", "12-31T00:00+14 01-01T00:00+14"},
		{"Pacific/Apia", "0 8 30 12 *", "2011-12-29T12:00", "12-31T00:00+14 12-30T08:00+14"},
		{"Pacific/Apia", "0 8 * * fri", "2011-12-29T12:00", "12-31T00:00+14 01-06T08:00+14"},
		{"Pacific/Apia", "0 8 31 12 *", "2011-12-29T12:00", "12-31T08:00+14"},
		{"Pacific/Apia", "0 */12 * * *", "2011-12-29T11:00", "12-29T12:00-10 12-31T00:00+14 12-31T12:00+14"},
		// half an hour: 2:00 to 2:30 skipped, 1:30 to 2:00 repeated
		{"Australia/Lord_Howe", "0,15 2 * * *", "2026-10-03T12:00", "10-04T02:30+11 10-05T02:00+11"},
		{"Australia/Lord_Howe", "15,45 2 * * *", "2026-10-03T12:00", "10-04T02:30+11 10-04T02:45+11"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00", "04-05T01:45+11 04-06T01:45+10"},
		{"Australia/Lord_Howe", "*/15 * * * *", "2026-04-05T01:15", "04-05T01:30+11 04-05T01:45+11 04-05T01:30+10 04-05T01:45+10"},
		// back an hour for Ramadan, then forward
		{"Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00", "02-15T02:30+01 02-16T02:30+00"}, // 3:00 repeats 2:00
		{"Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00", "03-22T03:00+01 03-23T02:30+01"},
		// two hours: 1:00 to 3:00 skipped and repeated
		{"Antarctica/Troll", "0 1,2 * * *", "2026-03-28T12:00", "03-29T03:00+02 03-30T01:00+02"},
		{"Antarctica/Troll", "30 1,2 * * *", "2026-10-24T12:00", "10-25T01:30+02 10-25T02:30+02 10-26T01:30+00"},
		{"Antarctica/Troll", "30 */1 * * *", "2026-10-25T00:45", "10-25T01:30+02 10-25T02:30+02 10-25T01:30+00 10-25T02:30+00"},
		// a new rule in the year: 2022-11-30 0:00 repeated 23:00 after the zone had left summer time in October
		{"America/Ciudad_Juarez", "30 23 * * *", "2022-11-29T12:00", "11-29T23:30-06 11-30T23:30-07"},
		// the last day of a leap year, where summer time goes on
		{"Australia/Sydney", "30 12 31 12 *", "2040-12-30T12:00", "12-31T12:30+11 12-31T12:30+11"},
		// no change of clocks
		{"Asia/Shanghai", "0 8 * * 1-5", "2026-11-26T12:00", "11-27T08:00+08 11-30T08:00+08"},
		{"UTC", "0 0 13 * fri", "2026-11-12T12:00", "11-13T00:00+00 11-20T00:00+00"},
		{"UTC", "0 0 */2 * fri", "2026-11-12T12:00", "11-13T00:00+00 11-27T00:00+00"},
	} {
		rule := parsed(t, c.cron, c.zone)
		after, err := time.ParseInLocation("2006-01-02T15:04", c.after, rule.zone)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.FieldsSeq(c.want) {
			next, ok := rule.Next(after)
			if !ok {
				t.Fatal(c)
			}
			got, after = append(got, next.In(rule.zone).Format("01-02T15:04-07")), next
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s in %s after %s: %s, want %s", c.cron, c.zone, c.after, strings.Join(got, " "), c.want)
		}
	}
}

// TestClocksThatChangeTwiceWithinAnHour: no zone does so yet. At 12:00 clocks go back an hour, and half an hour later,
// at 11:30, forward to 13:30. So 11:00 to 11:30 is repeated, and 12:00 to 13:30 is skipped.
func TestClocksThatChangeTwiceWithinAnHour(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	data := append([]byte("TZif"), make([]byte, 16)...)
	for _, n := range []uint32{0, 0, 0, 2, 3, 4, uint32(noon.Unix()), uint32(noon.Unix()) + 30*60} {
		data = binary.BigEndian.AppendUint32(data, n)
	}
	data = append(data, 1, 2)
	for _, offset := range []int32{0, -3600, 3600} {
		data = append(binary.BigEndian.AppendUint32(data, uint32(offset)), 0, 0)
	}
	zone, err := time.LoadLocationFromTZData("Test", append(data, "ABC\x00"...))
	if err != nil {
		t.Fatal(err)
	}
	for cron, want := range map[string]string{"45 11,13 * * *": "11:45+00 13:45+01", "15 11-13 * * *": "11:15+00 13:30+01"} {
		rule := parsed(t, cron, "UTC")
		rule.zone = zone
		var got []string
		for _, at := range rule.Between(noon.Add(-time.Hour), noon.Add(2*time.Hour), 10) {
			got = append(got, at.In(zone).Format("15:04-07"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", cron, got, want)
		}
	}
}

func TestWallClockSaysWhichMeaningApplies(t *testing.T) {
	for cron, want := range map[string]bool{"30 2 * * *": true, "0,30 1-3 * * *": true, "@daily": true, "1,* 2 * * *": true,
		"*/15 * * * *": false, "* 2 * * *": false, "0 */2 * * *": false, "@hourly": false} {
		if got := parsed(t, cron, "").WallClock(); got != want {
			t.Errorf("%s: %v", cron, got)
		}
	}
	if rule, _ := Every(time.Hour, time.Time{}); rule.WallClock() {
		t.Error("every has wall-clock times")
	}
}

// TestRareDatesAreFound: 29 February across 2100, which is no leap year, and on a Sunday, up to 40 years apart.
func TestRareDatesAreFound(t *testing.T) {
	for cron, weekdays := range map[string]int{"0 0 29 2 *": 7, "0 0 29 2 */7": 1} {
		rule := parsed(t, cron, "Europe/Berlin")
		var want []time.Time
		for year := 2000; year < 2400; year++ {
			if at := time.Date(year, 2, 29, 0, 0, 0, 0, rule.zone); at.Day() == 29 && int(at.Weekday()) < weekdays {
				want = append(want, at)
			}
		}
		after := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
		for _, at := range want {
			next, ok := rule.Next(after)
			if !ok || !next.Equal(at) {
				t.Fatalf("%s after %v: %v, want %v", cron, after, next, at)
			}
			after = next
		}
	}
}

func TestEveryCountsFromItsAnchorWithoutDrift(t *testing.T) {
	anchor := time.Date(2026, 3, 28, 23, 59, 7, 500, time.UTC)
	rule, err := Every(90*time.Second, anchor)
	if err != nil {
		t.Fatal(err)
	}
	first := anchor.Truncate(time.Second)
	late := first.Add(1_000_000 * 90 * time.Second)
	for _, c := range []struct{ after, want time.Time }{
		{first.AddDate(-3, 0, 0), first}, {first.Add(-1), first}, {first, first.Add(90 * time.Second)},
		{first.Add(89 * time.Second), first.Add(90 * time.Second)}, {late.Add(-1), late}, {late, late.Add(90 * time.Second)},
	} {
		if next, ok := rule.Next(c.after); !ok || !next.Equal(c.want) {
			t.Errorf("after %v: %v, want %v", c.after, next, c.want)
		}
	}
	if n := rule.Count(first, late); n != 1_000_000 {
		t.Errorf("%d occurrences", n)
	}
	if n := rule.Count(first.Add(-1), late.Add(89*time.Second)); n != 1_000_001 {
		t.Errorf("%d occurrences with the one at the anchor", n)
	}
	if last, ok := rule.Last(first, late.Add(89*time.Second)); !ok || !last.Equal(late) {
		t.Errorf("last: %v", last)
	}
	for _, interval := range []time.Duration{0, -time.Hour, time.Millisecond, time.Second - 1, 1500 * time.Millisecond} {
		if _, err := Every(interval, anchor); err == nil {
			t.Errorf("accepted %v", interval)
		}
	}
}

// TestOccurrencesAreFromStartOnAndBeforeEnd, so of two rules that meet at an instant only one has it.
func TestOccurrencesAreFromStartOnAndBeforeEnd(t *testing.T) {
	anchor := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	start, end := anchor.AddDate(0, 0, 10), anchor.AddDate(0, 0, 13)
	every, err := Every(24*time.Hour, anchor)
	if err != nil {
		t.Fatal(err)
	}
	for _, unbounded := range []*Rule{every, parsed(t, "@daily", "UTC")} {
		rule := unbounded.Within(start, end)
		if got := rule.Between(time.Time{}, end.AddDate(1, 0, 0), 10); len(got) != 3 || got[0] != start || got[2] != end.AddDate(0, 0, -1) {
			t.Errorf("%v", got)
		}
		if n := rule.Count(anchor, end.AddDate(1, 0, 0)); n != 3 {
			t.Errorf("%d", n)
		}
		if last, ok := rule.Last(anchor, end.AddDate(1, 0, 0)); !ok || last != end.AddDate(0, 0, -1) {
			t.Errorf("%v", last)
		}
		if next, ok := rule.Next(end.AddDate(0, 0, -1)); ok {
			t.Errorf("after the last: %v", next)
		}
		if next, _ := unbounded.Within(start.Add(1), time.Time{}).Next(anchor); next != start.AddDate(0, 0, 1) {
			t.Errorf("from a nanosecond later on: %v", next)
		}
		if next, _ := unbounded.Within(time.Time{}, start.Add(1)).Last(anchor, end); next != start {
			t.Errorf("before a nanosecond later: %v", next)
		}
		if _, ok := rule.Last(end, start); ok || rule.Count(end, start) != 0 {
			t.Error("occurrences in a time that ends before it begins")
		}
	}
}

// TestAnyInstantIsAllowed, and a search ends.
func TestAnyInstantIsAllowed(t *testing.T) {
	every, _ := Every(math.MaxInt64/time.Second*time.Second, time.Unix(0, 0))
	for _, zone := range zoneNames {
		for _, rule := range []*Rule{every, parsed(t, "0 0 29 2 *", zone), parsed(t, "* * * * *", zone)} {
			for _, at := range []time.Time{{}, time.Unix(-1<<62, 0), time.Unix(1<<62, 0), time.Unix(math.MaxInt64, 999), time.Unix(0, 1)} {
				next, ok := rule.Next(at)
				if ok && (!next.After(at) || next.Year() < 1 || next.Year() > 9999) {
					t.Errorf("after %v: %v", at, next)
				}
			}
			if rule.Last(time.Time{}, time.Unix(1_800_000_000, 0)); rule == every && rule.Count(time.Time{}, time.Unix(1<<62, 0)) != 28 {
				t.Error(rule.Count(time.Time{}, time.Unix(1<<62, 0)))
			}
		}
	}
}

func TestZonesAreThoseOfTheBinary(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir())
	for _, name := range append(zoneNames, "", "Etc/GMT+5", "America/Argentina/Ushuaia") {
		if zone, err := Zone(name); err != nil || name != "" && zone.String() != name {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
	for _, name := range []string{"Local", "Mars/Base", "Europe", "europe/berlin", "../zoneinfo.zip", "/etc/localtime", "UTC ", "+08:00"} {
		if _, err := Zone(name); err == nil || !strings.Contains(err.Error(), "unknown time zone") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Parse("@daily", name); err == nil {
			t.Errorf("parsed with %s", name)
		}
	}
}

// TestZoneDataIsNotOlderThanGos: `go generate` copies Go's.
func TestZoneDataIsNotOlderThanGos(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip(err)
	}
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib/time/update.bash"))
	if err != nil {
		t.Skip(err)
	}
	match := regexp.MustCompile(`(?m)^DATA=(20\d\d[a-z])$`).FindSubmatch(script)
	if match == nil || ZoneData() < string(match[1]) {
		t.Errorf("zone data are of %s, those of Go of %s: run go generate ./internal/schedule/calendar", ZoneData(), match)
	}
}

func BenchmarkNext(b *testing.B) {
	after := time.Date(2026, 11, 27, 12, 34, 56, 0, time.UTC)
	for _, zone := range []string{"UTC", "Europe/Berlin"} {
		for _, cron := range []string{"* * * * *", "*/15 * * * *", "0 8 * * 1-5", "0 0 1 1 *", "0 0 29 2 *"} {
			b.Run(zone+"/"+cron, func(b *testing.B) {
				rule := parsed(b, cron, zone)
				for b.Loop() {
					rule.Next(after)
				}
			})
		}
	}
	b.Run("every", func(b *testing.B) {
		rule, _ := Every(time.Minute, after)
		for b.Loop() {
			rule.Next(after)
		}
	})
}

func BenchmarkAYear(b *testing.B) {
	rule, from := parsed(b, "* * * * *", "Europe/Berlin"), time.Date(2025, 11, 27, 0, 0, 0, 0, time.UTC)
	b.Run("Last", func(b *testing.B) {
		for b.Loop() {
			rule.Last(from, from.AddDate(1, 0, 0))
		}
	})
	b.Run("Count", func(b *testing.B) {
		for b.Loop() {
			rule.Count(from, from.AddDate(1, 0, 0))
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		parsed(b, "0 8 * * mon-fri", "Asia/Shanghai")
	}
}

// TestLocalTimes: in a gap, the first instant after it; in a repeated hour, the first.
func TestLocalTimes(t *testing.T) {
	for _, c := range []struct{ zone, local, want string }{
		{"UTC", "2026-07-01T12:00:00.5", "2026-07-01T12:00:00.5Z"},
		{"Asia/Shanghai", "2026-07-01T08:00:00", "2026-07-01T00:00:00Z"},
		{"Europe/Berlin", "2026-03-29T01:59:59", "2026-03-29T00:59:59Z"},
		{"Europe/Berlin", "2026-03-29T02:00:00", "2026-03-29T01:00:00Z"}, // the gap
		{"Europe/Berlin", "2026-03-29T02:59:59.9", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29T03:00:00", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-10-25T02:30:00", "2026-10-25T00:30:00Z"}, // the repeated hour
		{"Europe/Berlin", "2026-10-25T03:00:00", "2026-10-25T02:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:30:00Z"}, // by half an hour
		{"Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T10:00:00Z"},        // a day
		{"Pacific/Kiritimati", "2026-01-01T00:00:00", "2025-12-31T10:00:00Z"},
	} {
		zone, err := Zone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		local, err := time.Parse("2006-01-02T15:04:05", c.local)
		if err != nil {
			t.Fatal(err)
		}
		if got := At(local, zone).Format(time.RFC3339Nano); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.local, c.zone, got, c.want)
		}
	}
}
