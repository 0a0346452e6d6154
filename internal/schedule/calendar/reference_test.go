package calendar

import (
	"math/rand/v2"
	"os"
	"slices"
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
// clocks have shown.
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

func (r *reference) matches(local minute) bool {
	date, week := r.accepts[2][local.day], r.accepts[4][local.weekday]
	day := date && week || r.either && (date || week)
	return day && r.accepts[0][local.minute] && r.accepts[1][local.hour] && r.accepts[3][local.month]
}

// due tells of a real minute whether it is an occurrence. local is its local time. fresh are the local times that are
// shown or skipped there for the first time.
func (r *reference) due(local minute, fresh []minute) bool {
	if !r.wall {
		return r.matches(local)
	}
	return slices.ContainsFunc(fresh, r.matches)
}

// A minute is a local time.
type minute struct{ minute, hour, day, month, weekday int }

func newMinute(local time.Time) minute {
	return minute{local.Minute(), local.Hour(), local.Day(), int(local.Month()), int(local.Weekday())}
}

// walk calls each for the real minutes in [from, until).
func walk(zone *time.Location, from, until time.Time, each func(at time.Time, local minute, fresh []minute)) {
	var shown time.Time // the latest local time that clocks have shown, as if it were of UTC
	for at := from.Add(-4 * time.Hour); at.Before(until); at = at.Add(time.Minute) {
		in := at.In(zone)
		local := time.Date(in.Year(), in.Month(), in.Day(), in.Hour(), in.Minute(), 0, 0, time.UTC)
		var fresh []minute
		for !at.Before(from) && shown.Before(local) {
			shown = shown.Add(time.Minute)
			fresh = append(fresh, newMinute(shown))
		}
		if local.After(shown) {
			shown = local
		}
		if !at.Before(from) {
			each(at, newMinute(local), fresh)
		}
	}
}

// compare checks Next, Last, Count and Between against the reference in [from, until).
func compare(t *testing.T, name string, rules []*Rule, from, until time.Time) {
	references, occurrences := make([]*reference, len(crons)), make([][]time.Time, len(crons))
	for i, cron := range crons {
		references[i] = newReference(cron)
	}
	walk(rules[0].zone, from, until, func(at time.Time, local minute, fresh []minute) {
		for i, r := range references {
			if r.due(local, fresh) {
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
			b := a.Add(time.Duration(random.Int64N(int64(min(end.Sub(a), 300*time.Hour)) + 1)))
			first, _ := slices.BinarySearchFunc(want, a.Add(1), time.Time.Compare)
			end, _ := slices.BinarySearchFunc(want, b.Add(1), time.Time.Compare)
			inside := want[first:end]
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
				for ; from.Before(until); from = from.AddDate(0, 1, 0) {
					compare(t, name, rules, from, from.AddDate(0, 1, 0))
				}
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
