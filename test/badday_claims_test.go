package test

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/ledger"
)

// record is the truth about a topic, from the ledger of its pushes and of its endpoint.
type record struct {
	jobs  []job
	calls []harness.Call
	outage
}

type job struct{ due, delivered time.Time } // delivered is far away if it was not

func (h *healing) record(topic string) *record {
	a := &record{calls: h.endpoint.Calls(topic), outage: h.outage}
	delivered := map[string]time.Time{}
	for _, c := range slices.Backward(a.calls) {
		if c.Status == http.StatusOK {
			delivered[c.ID] = c.At
		}
	}
	for _, e := range h.ledger.Events() {
		if e.Kind != ledger.Push || e.Topic != topic || e.Result != ledger.Acknowledged {
			continue
		}
		j := job{due: h.began.Add(time.Duration((e.At - ledger.MS(h.began)) * float64(time.Millisecond)))}
		if j.delivered = delivered[e.ID]; j.delivered.IsZero() {
			j.delivered = time.Now().Add(time.Hour)
		}
		a.jobs = append(a.jobs, j)
	}
	return a
}

// waiting returns how many jobs wait at a time, and for how long the oldest has.
func (a *record) waiting(at time.Time) (n int, oldest time.Duration) {
	for _, j := range a.jobs {
		if !j.due.After(at) && j.delivered.After(at) {
			n, oldest = n+1, max(oldest, at.Sub(j.due))
		}
	}
	return n, oldest
}

// failures returns how many of the last answered calls failed, one after the other.
func (a *record) failures(at time.Time) (n int) {
	for _, c := range slices.Backward(a.calls) {
		switch {
		case c.At.After(at) || c.Status == 0:
		case c.Status == http.StatusOK:
			return n
		default:
			n++
		}
	}
	return n
}

// lateCalls reports whether a call of the last ten seconds before a time was late.
func (a *record) lateCalls(at time.Time) bool {
	return slices.ContainsFunc(a.jobs, func(j job) bool {
		ago := at.Sub(j.delivered)
		return ago >= 0 && ago <= 10*time.Second && j.delivered.Sub(j.due) > lateAfter
	})
}

// cleared returns how long it takes from a time on until no job waits.
func (a *record) cleared(at time.Time) time.Duration {
	end := at
	for _, j := range a.jobs { // in the order of their due times
		if j.due.After(end) {
			break
		}
		if j.delivered.After(end) {
			end = j.delivered
		}
	}
	return end.Sub(at)
}

// growth returns by how many jobs a second the backlog grew in the 10 s before a time.
func (a *record) growth(at time.Time) float64 {
	before, _ := a.waiting(at.Add(-10 * time.Second))
	n, _ := a.waiting(at)
	return float64(n-before) / 10
}

// latest returns how late the latest job is called from a time on.
func (a *record) latest(at time.Time) (late time.Duration) {
	for _, j := range a.jobs {
		if j.delivered.After(at) {
			late = max(late, j.delivered.Sub(j.due))
		}
	}
	return late
}

// lateAfter is the objective of every topic.
const lateAfter = 5 * time.Second

// claim is one kind of statement. is returns what the ledger shows instead; empty: it is so.
type claim struct {
	says *regexp.Regexp
	is   func(a *record, at time.Time, words []string) string
}

func says(pattern string) *regexp.Regexp {
	const duration = `((?:\d+(?:\.\d+)?(?:ms|h|m|s) ?)+)`
	return regexp.MustCompile(strings.ReplaceAll(pattern, "DURATION", duration))
}

var claims = map[string]claim{
	"well":       {says(`^nothing$|^health: healthy$|^No problems`), isWell},
	"failing":    {says(`^topic \S+: the endpoint (?:is failing|returns)|^health: (?:failing|breaker open)`), fails},
	"resolved":   {says(`^resolved: topic \S+: the endpoint is failing`), delivers},
	"recovering": {says(`recovering, was: Endpoint failing`), delivers},
	"in time":    {says(`recovering, was: Late callbacks|^resolved: topic \S+ is late`), inTime},
	"answer":     {says(`the endpoint returns (\d+)`), answered},
	"in a row":   {says(`(\d+) calls in a row failed`), inARow},
	"late":       {says(`(?:^|lasted \S+\. )topic \S+ is late|^health: late`), isLate},
	"down":       {says(`^shard redis-1 is down|^health: shard down|a shard does not answer|^error`), isDown},
	"up":         {says(`redis-1 is recovering|^resolved: shard redis-1 is down`), isUp},
	"jobs":       {says(`(\d+) jobs? (?:waits?|(?:are|is) (?:ready|already due))`), jobsWait},
	"oldest":     {says(`ready, (?:the oldest )?for DURATION`), oldestWaits},
	"growing":    {says(`(growing|shrinking)`), trendIs},
	"cleared":    {says(`cleared in (?:about )?DURATION(?:to DURATION)?`), isCleared},
	"grows":      {says(`grows by ([\d.]+) jobs/s`), growsBy},
	"never":      {says(`not cleared within a day`), neverCleared},
	"breaker":    {says(`the circuit breaker is open`), fails},
	"deliveries": {says(`no deliveries yet`), noDeliveries},
	"minutes":    {says(`up to (\d+) to (\d+) minutes late`), minutesLate},
}

func instead(wrong bool, format string, args ...any) string {
	if wrong {
		return fmt.Sprintf(format, args...)
	}
	return ""
}

func isWell(a *record, at time.Time, _ []string) string {
	n, oldest := a.waiting(at)
	return cmp.Or(instead(oldest > lateAfter, "%d jobs wait, the oldest for %s", n, oldest), delivers(a, at, nil))
}

func fails(a *record, at time.Time, _ []string) string {
	return instead(a.failures(at) == 0, "the last call was delivered")
}

func delivers(a *record, at time.Time, _ []string) string {
	n := a.failures(at)
	return instead(n > 0, "the last %d calls failed", n)
}

func answered(a *record, _ time.Time, words []string) string {
	return instead(!slices.ContainsFunc(a.calls, func(c harness.Call) bool { return fmt.Sprint(c.Status) == words[1] }),
		"it never did")
}

func inARow(a *record, at time.Time, words []string) string {
	return differs(words[1], float64(a.failures(at)), 5)
}

func isLate(a *record, at time.Time, _ []string) string {
	_, oldest := a.waiting(at)
	return instead(oldest < lateAfter/2 && !a.lateCalls(at), "the oldest job waits for %s", oldest)
}

func inTime(a *record, at time.Time, _ []string) string {
	_, oldest := a.waiting(at)
	return instead(oldest > lateAfter, "the oldest job waits for %s", oldest)
}

func isDown(a *record, at time.Time, _ []string) string {
	return instead(!a.outage.at(at), "Redis is up")
}

func isUp(a *record, at time.Time, _ []string) string {
	return instead(a.outage.at(at), "Redis is stopped")
}

func jobsWait(a *record, at time.Time, words []string) string {
	n, _ := a.waiting(at)
	return differs(words[1], float64(n), 15)
}

func oldestWaits(a *record, at time.Time, words []string) string {
	_, oldest := a.waiting(at)
	return differs(fmt.Sprint(duration(words[1]).Seconds()), oldest.Seconds(), 10)
}

func trendIs(a *record, at time.Time, words []string) string {
	by := a.growth(at)
	return instead((words[1] == "growing") != (by > 0), "it changes by %.1f jobs/s", by)
}

func isCleared(a *record, at time.Time, words []string) string {
	least := duration(words[1])
	most := cmp.Or(duration(words[2]), least)
	return differs(fmt.Sprint(middle(least, most)), a.cleared(at).Seconds(), 5)
}

func growsBy(a *record, at time.Time, words []string) string {
	return differs(words[1], a.growth(at), 0.5)
}

func neverCleared(a *record, at time.Time, _ []string) string {
	return "it is cleared in " + a.cleared(at).String()
}

func noDeliveries(a *record, at time.Time, _ []string) string {
	return instead(slices.ContainsFunc(a.jobs, func(j job) bool {
		ago := at.Sub(j.delivered)
		return ago > 0 && ago < time.Minute
	}), "jobs were delivered in the last minute")
}

func minutesLate(a *record, at time.Time, words []string) string {
	least, _ := strconv.ParseFloat(words[1], 64)
	most, _ := strconv.ParseFloat(words[2], 64)
	is := a.latest(at).Minutes()
	return instead(is < least/factor || is > most*factor, "the latest job is %.1f minutes late", is)
}

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	return d
}

// differs compares a number with the truth, from which it may be off by a factor, or by little.
func differs(said string, is, little float64) string {
	n, err := strconv.ParseFloat(said, 64)
	return instead(err != nil || !within(n, is) && math.Abs(n-is) > little, "in truth %.1f", is)
}

// falsely returns which claims of a statement are false, by their kind.
func falsely(a *record, s statement) map[string]string {
	wrong := map[string]string{}
	for kind, c := range claims {
		words := c.says.FindStringSubmatch(s.text)
		if words == nil {
			continue
		}
		wrong[kind] = c.is(a, s.at, words)
		if s.source == "mail" && wrong[kind] != "" { // it is dated, and reports what was found before
			for ago := time.Second; ago <= falseMost && wrong[kind] != ""; ago += time.Second {
				wrong[kind] = c.is(a, s.at.Add(-ago), words)
			}
		}
	}
	return wrong
}

// falsehood is a statement that had been false for some time.
type falsehood struct {
	statement
	truth  string
	lasted time.Duration
}

// judge prints what was said each minute beside the ledger, and fails for what was false for too long, or in a mail.
func (h *healing) judge() {
	records := map[string]*record{shard: {outage: h.outage}}
	for _, topic := range healingTopics {
		records[topic] = h.record(topic)
	}
	since, longest, seen := map[string]time.Time{}, map[string]falsehood{}, map[string]bool{}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, s := range h.said {
		a := records[s.about]
		wrong, list := falsely(a, s), []string(nil)
		for kind := range claims {
			key := s.source + " of " + s.about + ": " + kind
			truth, said := wrong[kind]
			seen[key] = seen[key] || said && truth == ""
			if truth == "" {
				delete(since, key)
				continue
			}
			if since[key].IsZero() {
				since[key] = s.at
			}
			lasted := s.at.Sub(since[key])
			list = append(list, fmt.Sprintf("%s: %s (for %s)", kind, truth, lasted.Round(time.Second)))
			if worst := longest[key]; worst.text == "" || lasted > worst.lasted {
				longest[key] = falsehood{s, truth, lasted}
			}
		}
		if s.text != nothing && s.text != "" || len(list) > 0 {
			_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%.90s\t%s\t%s\n", s.minute, s.about, s.source, s.text, a.say(s.at),
				strings.Join(list, "; "))
		}
	}
	_ = w.Flush() // to memory
	h.t.Logf("minute by minute:\n%s", out.String())
	for key, f := range longest {
		if f.lasted > falseMost || f.source == "mail" {
			h.t.Errorf("%s is false for %s in minute %d: %q: %s", key, f.lasted, f.minute, f.text, f.truth)
		}
	}
	for _, want := range []string{
		"overview of heals: failing", "overview of redis-1: up", "overview of flooded: jobs",
		"alerts of heals: recovering", "alerts of flooded: grows", "topic of heals: well", "forecast of heals: breaker",
		"forecast of flooded: cleared", "forecast of grows: grows", "forecast of grows: cleared",
		"CLI alerts of heals: failing", "CLI alerts of redis-1: up", "CLI stats of grows: jobs",
		"mail of heals: failing", "mail of heals: resolved", "mail of flooded: late", "mail of redis-1: down",
		"mail of redis-1: up",
	} {
		if !seen[want] {
			h.t.Errorf("never said: %s", want)
		}
	}
}

// say returns the truth at a time in short.
func (a *record) say(at time.Time) string {
	n, oldest := a.waiting(at)
	text := fmt.Sprintf("%d wait, %s", n, oldest.Round(time.Second))
	if f := a.failures(at); f > 0 {
		text += fmt.Sprintf(", %d failed", f)
	}
	if a.outage.at(at) {
		text += ", Redis stopped"
	}
	return text
}

// TestClaimsAreFoundFalse, so that the judge of the day cannot pass by comparing nothing.
func TestClaimsAreFoundFalse(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := &record{outage: outage{now.Add(-time.Minute), now.Add(-50 * time.Second)}}
	for n := range 100 { // two a second are delivered from now on
		a.jobs = append(a.jobs, job{now.Add(-30 * time.Second), now.Add(time.Duration(n) * time.Second / 2)})
	}
	a.calls = []harness.Call{{At: now.Add(-time.Second), Status: 500}, {At: now.Add(-time.Second), Status: 500}}
	for text, want := range map[string]string{
		"nothing": "well", "health: late": "", "100 jobs are ready, the oldest for 31s": "", "300 jobs wait": "jobs",
		"100 jobs are already due; cleared in 40s to 1m 0s.": "", "cleared in about 10s": "cleared",
		"cleared in 1m20s to 1m30s": "cleared", "never cleared like this: grows by 14 jobs/s": "grows",
		"resolved: topic a: the endpoint is failing: ": "resolved", "shard redis-1 is down": "down",
		"topic a: the endpoint is failing: the endpoint returns 503": "answer", "30 calls in a row failed": "in a row",
		"recovering, was: Late callbacks": "in time", "not cleared within a day": "never",
		"jobs will be up to 6 to 9 minutes late": "minutes",
	} {
		var got []string
		for kind, truth := range falsely(a, statement{at: now, source: "page", text: text}) {
			if truth != "" {
				got = append(got, kind)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: false is %q, want %q", text, got, want)
		}
	}
}
