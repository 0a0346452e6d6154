package test

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"net/http"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// The truth table of a bad day has a line for each problem: what the pages say about it, what the mails say, and what
// the endpoint's ledger shows. Each forecast is compared with what then happened.

// factor is how far a forecast may be off.
const factor = 1.5

// foretold is a forecast, as the API and the topic's page gave it.
type foretold struct {
	topic    string
	at       time.Time
	Waiting  int64   `json:"waiting"`
	Cleared  *int64  `json:"cleared_in_ms"`
	Most     int64   `json:"cleared_in_most_ms"`
	Reason   string  `json:"reason"`
	Growth   float64 `json:"growth"`
	page     string
	problems []string
}

// Topics whose jobs are all due at the start of the day: at five calls a second they are cleared by minute 14.
var backlogs = []string{"limited.soon", "slow"}

func (d *badDay) registerBacklogs() {
	d.put(d.t, "limited.soon", nil, M{"rate_limit": 5})
	d.put(d.t, "slow", harness.Slow(time.Second), M{"max_in_flight": 5})
	d.put(d.t, "flooded", nil, M{"rate_limit": 5})
}

func (d *badDay) backlogJobs() (jobs []M) {
	for _, topic := range backlogs {
		for n := range int(14 * 5 * d.minute.Seconds()) {
			jobs = append(jobs, M{"topic": topic, "body": n})
		}
	}
	return jobs
}

var (
	tags     = regexp.MustCompile(`<[^>]*>|\s+`)
	spaces   = regexp.MustCompile(` +`)
	pageSays = regexp.MustCompile(`already due; ([^.]*)\.`)
)

// plain returns the text of a page.
func plain(page string) string {
	return html.UnescapeString(spaces.ReplaceAllString(tags.ReplaceAllString(page, " "), " "))
}

// ask reads the forecast of a topic.
func (d *badDay) ask(topic string, pages func(string, bool) string) *foretold {
	f := &foretold{topic: topic}
	err := d.MustDo(d.t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic+"/forecast", nil).JSON(f)
	if err != nil {
		d.t.Fatal(err)
	}
	f.at = time.Now()
	if said := pageSays.FindStringSubmatch(plain(pages("/topics/"+topic+"?tab=forecast", false))); said != nil {
		f.page = said[1]
	}
	d.told = append(d.told, f)
	return f
}

func (f *foretold) wrong(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// isCleared compares when the backlog was to be cleared with the last call for it.
func (d *badDay) isCleared(f *foretold) {
	calls := d.endpoint.Calls(f.topic)
	took := calls[len(calls)-1].At.Sub(f.at)
	if f.Cleared == nil {
		f.wrong("unknown (%s), but cleared after %s", f.Reason, took.Round(time.Second))
		return
	}
	least, most := time.Duration(*f.Cleared)*time.Millisecond, time.Duration(f.Most)*time.Millisecond
	if !within(middle(least, most), took.Seconds()) {
		f.wrong("said %s to %s, took %s", least.Round(time.Second), most.Round(time.Second), took.Round(time.Second))
	}
	if !strings.HasPrefix(f.page, "cleared in ") {
		f.wrong("the page does not say so")
	}
	at, text := d.mailed(f.topic)
	if at.IsZero() && d.leftOut() > 0 {
		return
	}
	from, to, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(text, "cleared in "), "about "), " to ")
	least, err := time.ParseDuration(from)
	most, _ = time.ParseDuration(cmp.Or(to, from))
	took = calls[len(calls)-1].At.Sub(at)
	if err != nil || !within(middle(least, most), took.Seconds()) {
		f.wrong("the mail said %q, took %s", text, took.Round(time.Second))
	}
}

// middle returns the time in seconds that is off by the same factor from both bounds.
func middle(least, most time.Duration) float64 { return math.Sqrt(least.Seconds() * most.Seconds()) }

var mailSays = regexp.MustCompile(`(cleared in [0-9hms]+ to [0-9hms]+|cleared in about [0-9hms]+|` +
	`never cleared [^;,(|]*|unknown when cleared: [^;,(|]*)`)

func secondWord(line string) string {
	if words := strings.Fields(line); len(words) > 1 {
		return words[1]
	}
	return ""
}

// mailed returns when a mail first said when the backlog of a topic is cleared, and its words.
func (d *badDay) mailed(topic string) (time.Time, string) {
	for _, m := range d.smtp.Mails() {
		for line := range strings.Lines(textOf(d.t, m)) {
			said := mailSays.FindStringSubmatch(strings.TrimSpace(line))
			if said == nil || !slices.Contains([]string{topic, topic + ":"}, secondWord(line)) {
				continue
			}
			if at, err := mail.ParseDate(m.Header.Get("Date")); err == nil {
				return at, said[1]
			}
		}
	}
	return time.Time{}, "–"
}

// leftOut returns how many alerts have no row in the first mail, which has at most 1,500 characters.
func (d *badDay) leftOut() (n int) {
	if more := newAndMore.FindStringSubmatch(textOf(d.t, d.smtp.Mails()[0])); more != nil {
		n, _ = strconv.Atoi(more[1])
	}
	return n
}

var newAndMore = regexp.MustCompile(`\nNew\r?\n(?:topic .*\n)+and (\d+) more`)

func within(said, is float64) bool { return said <= factor*is && is <= factor*said }

// grew compares the growth of a backlog with a later count of it.
func (d *badDay) grew(f, later *foretold) {
	is := float64(later.Waiting-f.Waiting) / later.at.Sub(f.at).Seconds()
	if f.Reason != "grows" || !within(f.Growth, is) {
		f.wrong("said %s by %.1f/s, grew by %.1f/s", f.Reason, f.Growth, is)
	}
	at, mail := d.mailed(f.topic)
	if !strings.Contains(f.page, "grows by") || !strings.Contains(mail, "grows by") && !(at.IsZero() && d.leftOut() > 0) {
		f.wrong("the page says %q, the mail %q", f.page, mail)
	}
}

// shrank compares how fast a backlog was to shrink after its flood and an outage of Redis, if that was known, with a
// later count of it.
func (d *badDay) shrank(f, later *foretold) {
	if f.Cleared == nil {
		if f.Reason == "grows" {
			f.wrong("said it grows after the flood's end")
		}
		return
	}
	said := float64(f.Waiting) / middle(time.Duration(*f.Cleared)*time.Millisecond, time.Duration(f.Most)*time.Millisecond)
	if is := float64(f.Waiting-later.Waiting) / later.at.Sub(f.at).Seconds(); !within(said, is) {
		f.wrong("said it shrinks by %.1f/s, it shrank by %.1f/s", said, is)
	}
}

// isUnknown checks that a backlog of which it was unknown when it is cleared was not.
func (d *badDay) isUnknown(f *foretold, reason, words string) {
	if f.Cleared != nil || f.Reason != reason || !strings.Contains(f.page, words) {
		f.wrong("want %s, got %s", reason, f.Reason)
	}
	for _, c := range d.endpoint.Calls(f.topic) {
		if c.At.After(f.at) && c.Status == http.StatusOK {
			f.wrong("a job was delivered")
			return
		}
	}
}

// truth prints the truth table, and fails where its columns disagree.
func (d *badDay) truth(pages func(string, bool) string) {
	alerts, mails := plain(pages("/alerts", false)), ""
	for _, m := range d.smtp.Mails() {
		mails += textOf(d.t, m) + "\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "topic\tpage\tmail\tendpoint's ledger\tdisagreement")
	line := func(topic, page, mail string, problems []string) {
		_, _ = fmt.Fprintln(w, strings.Join([]string{topic, page, mail, d.ledgerOf(topic), strings.Join(problems, "; ")},
			"\t"))
		for _, p := range problems {
			d.t.Errorf("%s: %s", topic, p)
		}
	}
	for _, topic := range failing {
		page, mail := answerIn(alerts, topic), answerIn(mails, topic)
		line(topic, page, mail, d.disagree(topic, page, mail))
	}
	for _, f := range d.told {
		_, mail := d.mailed(f.topic)
		line(f.topic, f.page, mail, f.problems)
	}
	for _, topic := range d.healthy() {
		if page, mail := answerIn(alerts, topic), answerIn(mails, topic); page != "" || mail != "" {
			line(topic, page, mail, d.disagree(topic, page, mail))
		}
	}
	_ = w.Flush() // to memory
	d.t.Logf("the truth table:\n%s", out.String())
}

const endpointFails = ": the endpoint is failing"

var answerSaid = regexp.MustCompile(`the endpoint (returns \d+|times out|refuses connections)`)

// answerIn returns what a text says about the answers of a topic's endpoint: "returns 429", "times out".
func answerIn(text, topic string) string {
	for _, part := range strings.Split(text, "topic "+topic+endpointFails)[1:] {
		part, _, _ = strings.Cut(part, endpointFails) // of the next topic
		if said := answerSaid.FindStringSubmatch(part); said != nil {
			return said[1]
		}
	}
	return ""
}

// disagree compares what the page and the mail say about an endpoint's answers with what it answered.
func (d *badDay) disagree(topic, page, mail string) (problems []string) {
	is := d.answersOf(topic)
	if page != is {
		problems = append(problems, fmt.Sprintf("the page says %q, the endpoint %q", page, is))
	}
	if mail != is && (mail != "" || d.leftOut() == 0) {
		problems = append(problems, fmt.Sprintf("the mail says %q, the endpoint %q", mail, is))
	}
	return problems
}

// answersOf returns what the endpoint of a topic did, in the words of an alert; empty if it delivers.
func (d *badDay) answersOf(topic string) string {
	calls := d.endpoint.Calls(topic)
	switch status := lastStatus(calls); {
	case len(calls) == 0:
		return "refuses connections"
	case status == http.StatusOK:
		return ""
	case status < 400 || status == 499:
		return "times out"
	default:
		return fmt.Sprintf("returns %d", status)
	}
}

// lastStatus returns the status of the last answered call.
func lastStatus(calls []harness.Call) int {
	for _, c := range slices.Backward(calls) {
		if c.Status > 0 {
			return c.Status
		}
	}
	return 0
}

// ledgerOf summarizes the calls for a topic.
func (d *badDay) ledgerOf(topic string) string {
	calls := d.endpoint.Calls(topic)
	if len(calls) == 0 {
		return "no call"
	}
	counts := map[int]int{}
	for _, c := range calls {
		counts[c.Status]++
	}
	span := calls[len(calls)-1].At.Sub(calls[0].At)
	answers := strings.TrimPrefix(fmt.Sprint(counts), "map")
	return fmt.Sprintf("%d calls in %s: %s", len(calls), span.Round(time.Second), answers)
}

// TestTheTruthTableFindsWhatIsWrong, so that it cannot pass by comparing nothing.
func TestTheTruthTableFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		said, is float64
		want     bool
	}{{120, 600, false}, {600, 120, false}, {100, 140, true}, {0, 10, false}, {10, -1, false}} {
		if within(c.said, c.is) != c.want {
			t.Errorf("said %v, is %v: want %v", c.said, c.is, c.want)
		}
	}
	text := "topic a: the endpoint is failing (warning): 9 of 9 attempts failed: the endpoint returns 429 " +
		"topic b: the endpoint is failing: the endpoint times out"
	if answerIn(text, "a") != "returns 429" || answerIn(text, "b") != "times out" || answerIn(text, "c") != "" {
		t.Errorf("%q, %q, %q", answerIn(text, "a"), answerIn(text, "b"), answerIn(text, "c"))
	}
}
