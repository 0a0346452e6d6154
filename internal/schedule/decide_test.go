package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

func every(t *testing.T, d time.Duration) *calendar.Rule {
	t.Helper()
	rule, err := calendar.Every(d, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

func at(clock string) time.Time {
	t, err := time.Parse(time.TimeOnly, clock) // fractions may follow
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 11, 23, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// TestDecide: what is in time is pushed; of the rest, what the policy says, and all else is counted with its reason.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		every       time.Duration
		missed      Missed
		maxLate     time.Duration
		cursor, now string
		push        []string
		late, limit int
	}{
		"in time":                           {15 * time.Minute, "last", 0, "08:00:00", "08:15:00.020", []string{"08:15:00"}, 0, 0},
		"nothing yet":                       {15 * time.Minute, "last", 0, "08:15:00", "08:29:59.999", nil, 0, 0},
		"a minute late is in time":          {15 * time.Minute, "skip", 0, "08:00:00", "08:16:00", []string{"08:15:00"}, 0, 0},
		"more is missed":                    {15 * time.Minute, "skip", 0, "08:00:00", "08:16:00.001", nil, 1, 0},
		"half of a short distance, too":     {10 * time.Second, "skip", 0, "08:00:00", "08:00:15.001", nil, 1, 0},
		"the last one":                      {15 * time.Minute, "last", 0, "08:00:00", "09:07:00", []string{"09:00:00"}, 3, 0},
		"not after the next":                {15 * time.Minute, "last", 0, "08:00:00", "09:15:01", []string{"09:15:00"}, 4, 0},
		"but so late if it may be":          {15 * time.Minute, "last", time.Hour, "08:00:00", "09:15:01", []string{"09:00:00", "09:15:00"}, 3, 0},
		"all":                               {15 * time.Minute, "all", 0, "08:00:00", "08:50:00", []string{"08:15:00", "08:30:00", "08:45:00"}, 0, 0},
		"all that are not too late":         {15 * time.Minute, "all", 20 * time.Minute, "08:00:00", "08:50:00", []string{"08:30:00", "08:45:00"}, 1, 0},
		"each second, after a short stop":   {time.Second, "last", 0, "08:00:00", "08:00:03.200", []string{"08:00:03"}, 2, 0},
		"each second, the last not yet old": {time.Second, "last", 0, "08:00:00", "08:00:03.700", []string{"08:00:03"}, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Policy{Name: "x", Rule: every(t, c.every), Missed: c.missed, MaxLate: c.maxLate}
			d := p.Decide(at(c.cursor), at(c.now))
			var got []string
			for _, at := range d.Push {
				got = append(got, at.Format(time.TimeOnly))
			}
			if !slices.Equal(got, c.push) || d.Late != c.late || d.Limit != c.limit {
				t.Errorf("pushes %q, late %d, limit %d; want %q, %d, %d", got, d.Late, d.Limit, c.push, c.late, c.limit)
			}
		})
	}
}

// TestCaughtUpAtMost: the newest hundred are pushed, the others within a day count as too many, older ones as late.
func TestCaughtUpAtMost(t *testing.T) {
	p := &Policy{Name: "x", Rule: every(t, time.Minute), Missed: MissedAll}
	now := at("08:00:45")
	d := p.Decide(now.Add(-50*time.Hour), now)
	if len(d.Push) != 100 || !d.Push[99].Equal(at("08:00:00")) || d.Limit != 24*60-100 || d.Late != 26*60 {
		t.Errorf("%d pushes up to %s, limit %d, late %d", len(d.Push), d.Push[99], d.Limit, d.Late)
	}
}

// TestEachOccurrenceIsDecidedOnce, however the decisions are spread over time.
func TestEachOccurrenceIsDecidedOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, missed := range []Missed{MissedLast, MissedSkip, MissedAll} {
		rule, err := calendar.Parse("*/7 1-3 * * *", "Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		p := &Policy{Name: "x", Rule: rule, Missed: missed}
		begin := time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC)
		cursor, now, decided := begin, begin, 0
		seen := map[time.Time]bool{}
		for range 2000 {
			now = now.Add(time.Duration(random.Int64N(int64(30 * time.Minute))))
			d := p.Decide(cursor, now)
			for _, at := range d.Push {
				if seen[at] || at.After(now) || !at.After(cursor) {
					t.Fatalf("%s is pushed at %s behind %s; again: %v", at, now, cursor, seen[at])
				}
				seen[at] = true
			}
			decided += len(d.Push) + d.Late + d.Limit
			cursor = d.Cursor
		}
		if want := rule.Count(begin, now); decided != want {
			t.Errorf("%s: %d occurrences were decided of %d", missed, decided, want)
		}
	}
}

// TestJitterIsTheSameEverywhere and stays within its bounds.
func TestJitterIsTheSameEverywhere(t *testing.T) {
	p := &Policy{Name: "x", Rule: every(t, time.Minute), Jitter: 30 * time.Second}
	different := map[time.Duration]bool{}
	for n := range 100 {
		nominal := at("08:00:00").Add(time.Duration(n) * time.Minute)
		late := p.Due(nominal).Sub(nominal)
		if late < 0 || late >= p.Jitter || !p.Due(nominal.In(time.FixedZone("", 3600))).Equal(p.Due(nominal)) {
			t.Fatalf("%s is due %s later", nominal, late)
		}
		different[late] = true
	}
	if len(different) < 90 {
		t.Errorf("only %d different delays", len(different))
	}
}
