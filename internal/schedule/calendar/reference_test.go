package calendar

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

var zoneNames = []string{"America/New_York", "Europe/Berlin", "Africa/Cairo", "America/Sao_Paulo", "Australia/Lord_Howe",
	"Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll", "Asia/Shanghai", "UTC"}

// crons are fixed times in and around every gap and repeated hour of these zones, and rules of real time.
var crons = []string{
	"0 0 * * *", "30 0 * * *", "59 23 * * *", "30 1 * * *", "45 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "0 3 * * *",
	"5,10,50 0-3 * * *", "0 0,12 * * *", "17 0-23/2 * * *", "0-59 2 * * *", "0 8 * * 1-5", "30 8 30 12 *", "0 0 31 12 *",
	"0 3 1,15 * fri", "30 2 8-14 3 0", "0 1 */2 * 1", "0 0 29 2 *", "15 2 * 10 7",
	"* * * * *", "*/15 * * * *", "0 * * * *", "30 * * * *", "*/20 1-3 * * *", "* 2 * * *", "10 */2 * * *", "*/30 0 30 12 *", "7 * * 3,11 sun",
	"*/5 0 1 * *",
}

// reference finds occurrences in the plainest way: it goes through the real minutes, and keeps the latest local time that
// the clocks have shown. Times that they did not show when that goes on were skipped.
type reference struct {
	accepts [5][64]bool
	either  bool
	wall    bool
}

func newReference(cron string) *reference {
	r := &reference{}
	words := strings.Fields(cron)
	for i, limit := range [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}} {
		for part := range strings.SplitSeq(strings.NewReplacer("fri", "5", "sun", "0").Replace(words[i]), ",") {
			part, step, _ := strings.Cut(part, "/")
			from, to, isRange := strings.Cut(part, "-")
			low, _ := strconv.Atoi(from)
			high, _ := strconv.Atoi(to)
			by, _ := strconv.Atoi(step)
			if part == "*" {
				low, high = limit[0], limit[1]
			} else if !isRange {
				high = low
			}
			for v := low; v <= high; v++ {
				if (v-low)%max(by, 1) == 0 {
					r.accepts[i][v] = true
				}
			}
		}
	}
	r.accepts[4][0] = r.accepts[4][0] || r.accepts[4][7]
	r.either = words[2][0] != '*' && words[4][0] != '*'
	r.wall = words[0][0] != '*' && words[1][0] != '*'
	return r
}

// matches takes a local time whose zone no longer matters.
func (r *reference) matches(local time.Time) bool {
	date, week := r.accepts[2][local.Day()], r.accepts[4][local.Weekday()]
	day := date && week || r.either && (date || week)
	return day && r.accepts[0][local.Minute()] && r.accepts[1][local.Hour()] && r.accepts[3][local.Month()]
}

// due tells of a real minute whether it is an occurrence. shown is the latest local time shown before it.
func (r *reference) due(local, shown time.Time) bool {
	if !r.wall {
		return r.matches(local)
	}
	for skipped := shown.Add(time.Minute); !skipped.After(local); skipped = skipped.Add(time.Minute) {
		if r.matches(skipped) {
			return true
		}
	}
	return false
}

// walk calls each for the real minutes in [from, until), with their local times as if they were of UTC.
func walk(zone *time.Location, from, until time.Time, each func(at, local, shown time.Time)) {
	var shown time.Time
	for at := from.Add(-4 * time.Hour); at.Before(until); at = at.Add(time.Minute) {
		in := at.In(zone)
		local := time.Date(in.Year(), in.Month(), in.Day(), in.Hour(), in.Minute(), 0, 0, time.UTC)
		if !at.Before(from) {
			each(at, local, shown)
		}
		if local.After(shown) {
			shown = local
		}
	}
}

// compare checks Next, Last, Count and Between against the reference in [from, until).
func compare(t *testing.T, name string, rules []*Rule, from, until time.Time) {
	references, occurrences := make([]*reference, len(crons)), make([][]time.Time, len(crons))
	for i, cron := range crons {
		references[i] = newReference(cron)
	}
	walk(rules[0].zone, from, until, func(at, local, shown time.Time) {
		for i, r := range references {
			if r.due(local, shown) {
				occurrences[i] = append(occurrences[i], at)
			}
		}
	})
	random := rand.New(rand.NewPCG(1, uint64(from.Unix())))
	for i, rule := range rules {
		want, after, end := occurrences[i], from.Add(-1), until.Add(-1)
		got := rule.Between(after, end, len(want)+1)
		for n := range max(len(got), len(want)) {
			if n >= len(got) || n >= len(want) || !got[n].Equal(want[n]) {
				t.Fatalf("%s, %s, after %v: %v, want %v", name, crons[i], from, got[min(n, len(got)):min(n+2, len(got))],
					want[min(n, len(want)):min(n+2, len(want))])
			}
		}
		for range 20 { // instants between occurrences
			a := from.Add(time.Duration(random.Int64N(int64(end.Sub(from)))))
			b := a.Add(time.Duration(random.Int64N(int64(end.Sub(a)) + 1)))
			var inside []time.Time
			for _, at := range want {
				if at.After(a) && !at.After(b) {
					inside = append(inside, at)
				}
			}
			if n := rule.Count(a, b); n != len(inside) {
				t.Fatalf("%s, %s: %d occurrences in (%v, %v], want %d: %v", name, crons[i], n, a, b, len(inside), inside)
			}
			next, ok := rule.Next(a)
			last, found := rule.Last(a, b)
			if found != (len(inside) > 0) || found && (!ok || !next.Equal(inside[0]) || !last.Equal(inside[len(inside)-1])) {
				t.Fatalf("%s, %s, (%v, %v]: next %v, last %v; want %v", name, crons[i], a, b, next, last, inside)
			}
		}
	}
}

// TestNextAgreesWithAWalkThroughTheMinutes: in windows around each change of clocks from 2011 to 2037; a long run
// (make test-long) has all of these years.
func TestNextAgreesWithAWalkThroughTheMinutes(t *testing.T) {
	for _, name := range zoneNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := make([]*Rule, len(crons))
			for i, cron := range crons {
				rules[i] = parsed(t, cron, name)
			}
			from, until := time.Date(2010, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2038, 1, 2, 0, 0, 0, 0, time.UTC)
			if os.Getenv("WAKECALL_TEST_LONG") != "" {
				compare(t, name, rules, from, until)
				return
			}
			compare(t, name, rules, from, from.AddDate(0, 0, 14))
			for at := range changes(rules[0].zone, from, until) {
				compare(t, name, rules, at.Add(-3*time.Hour), at.Add(6*time.Hour))
			}
		})
	}
}

// changes yields the hours, rounded down, in which the offset of a zone changes.
func changes(zone *time.Location, from, until time.Time) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		offset := func(t time.Time) int { _, o := t.In(zone).Zone(); return o }
		for at := from; at.Before(until); at = at.Add(time.Hour) {
			if offset(at) != offset(at.Add(time.Hour)) && !yield(at) {
				return
			}
		}
	}
}

func parsed(t testing.TB, cron, zone string) *Rule {
	t.Helper()
	rule, err := Parse(cron, zone)
	if err != nil {
		t.Fatalf("%s in %s: %v", cron, zone, err)
	}
	return rule
}
