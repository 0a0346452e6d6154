package admin

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/alert/activity"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/queue"
)

// part returns the answer that htmx gets for a form, without following redirects.
func (s *site) part(path string, pairs ...string) (*http.Response, string) {
	s.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.url+path, strings.NewReader(form.Encode()))
	must(s.T, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("HX-Request", "true")
	res, err := s.client.Do(r)
	must(s.T, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	must(s.T, err)
	return res, string(body)
}

// lostQueue answers until its shard is lost.
type lostQueue struct {
	deadQueue
	lost atomic.Bool
}

func (q *lostQueue) away() error {
	if q.lost.Load() {
		return &queue.PartialError{Shards: []string{"s1"}, Err: context.DeadlineExceeded}
	}
	return nil
}

func (q *lostQueue) Counts(context.Context) (map[string]queue.Stats, error) { return q.stats, q.away() }

func (q *lostQueue) Stats(context.Context, []string) (map[string]queue.Stats, error) {
	return q.stats, q.away()
}

func (q *lostQueue) Totals(context.Context, []string) (map[string]queue.TopicTotals, error) {
	return map[string]queue.TopicTotals{"a": {Stats: q.stats["a"], Total: queue.Totals{Pushed: 123}}}, q.away()
}

// TestOldNumbersAreDimmedAndSayTheirAge wherever they are shown.
func TestOldNumbersAreDimmedAndSayTheirAge(t *testing.T) {
	t.Parallel()
	q := &lostQueue{deadQueue: *newDeadQueue("a", 7)}
	var passed atomic.Int64
	began := time.Now().Add(time.Hour) // a session older than its account is invalid
	s := open(t, func(o *Options) {
		o.Queue, o.Now = q, func() time.Time { return began.Add(time.Duration(passed.Load())) }
	}).as("look")
	s.topic("a")
	pages := []string{"/topics", "/topics/a", "/dead"}
	for _, path := range pages {
		if body := s.shows(path); strings.Contains(body, "wk-old") {
			t.Errorf("%s dims new numbers", path)
		}
	}
	q.lost.Store(true)
	passed.Store(int64(time.Minute))
	for _, path := range pages {
		s.shows(path, "wk-old", "these numbers are old, from <time", "1m ago", ">7<")
	}
	s.admin.page.SetStrip(s.admin.overview.Strip(t.Context()))
	s.shows("/audit", `<dl class="wk-old">`, "1m ago")
	passed.Store(int64(time.Hour)) // during which no page is open
	if body := s.shows("/audit", "<dd>–</dd>"); strings.Contains(body, `<dd class="text-red">7</dd>`) {
		t.Error("a page begins with the numbers of an hour ago")
	}
}

// sick has topics with different problems: one with failures only, one without deliveries because of its breaker, one
// that is late.
type sick struct{ fakeQueue }

func (*sick) TopicLimits(context.Context, []string) (map[string]queue.TopicLimits, error) {
	return map[string]queue.TopicLimits{"broken": {Failures: 12, BreakerOpen: time.Now().Add(time.Hour)}}, nil
}

func (q *sick) Totals(_ context.Context, topics []string) (map[string]queue.TopicTotals, error) {
	all := map[string]queue.TopicTotals{}
	for _, name := range topics {
		n := int64(len(name))
		all[name] = queue.TopicTotals{Stats: q.stats[name],
			Today: queue.Totals{Pushed: 9 * n, Delivered: 7 * n, Failed: 5 * n, Deleted: 3 * n}}
	}
	return all, nil
}

func (*sick) Series(_ context.Context, series, span string) (history.Points, error) {
	n, p99 := 4.0, 10*float64(len(series))
	p := history.Points{Series: series, Span: span, Step: 10, Times: []int64{10, 20}, Values: map[string][]*float64{
		"delivered": {nil, &n}, "p99": {nil, &p99},
	}, Sums: map[string]int64{"delivered": int64(len(series)), "failed": 1}}
	switch series {
	case "broken", "one":
		p.Sums = map[string]int64{"failed": 1}
	case "some":
		p.Sums = map[string]int64{"delivered": 4, "failed": 6}
	}
	return p, nil
}

// sickSite has a topic for each state of health.
func sickSite(t *testing.T) *site {
	q := &sick{}
	s := open(t, func(o *Options) { o.Queue, o.History = q, q }).as("ops")
	q.stats = map[string]queue.Stats{}
	for i, name := range []string{"broken", "one", "some", "waiting", "well.known"} {
		s.topic(name)
		n := int64(i + 1)
		q.stats[name] = queue.Stats{Delayed: n, Ready: 2 * n, Running: 3 * n, Dead: 4 * n,
			OldestReady: time.Duration(i) * time.Millisecond}
	}
	q.stats["waiting"] = queue.Stats{Delayed: 4, Ready: 8, Running: 12, Dead: 16, OldestReady: time.Hour}
	return s
}

// TestABrokenTopicIsNotHealthy: the list shows each topic's health, success rate, p99 and longest wait.
func TestABrokenTopicIsNotHealthy(t *testing.T) {
	t.Parallel()
	s := sickSite(t)
	body := s.shows("/topics", `data-live="topics:`)
	for name, want := range map[string][]string{
		"broken": {"breaker open", "bg-red-lt", "0 %", "60ms", "<polyline"}, "one": {"failing", "bg-red-lt", "0 %"},
		"some": {"failing", "40.0 %"}, "waiting": {"late", "bg-orange-lt", "1h"},
		"well.known": {"healthy", "bg-green-lt", "90.9 %", "100ms"},
	} {
		_, row, _ := strings.Cut(body, `href="/topics/`+name+`">`)
		row, _, _ = strings.Cut(row, "</tr>")
		for _, part := range want {
			if !strings.Contains(row, part) {
				t.Errorf("the row of %s lacks %q:\n%s", name, part, row)
			}
		}
	}
	s.shows("/topics/broken", "breaker open", "0 %", "60ms")
}

// TestTopicsAreSortedByEveryColumnBothWays, by the links in the head of the table.
func TestTopicsAreSortedByEveryColumnBothWays(t *testing.T) {
	t.Parallel()
	s := sickSite(t)
	order := func(by string) (names []string) {
		for _, m := range regexp.MustCompile(`class="fw-bold" href="/topics/([a-z.]+)"`).FindAllStringSubmatch(s.shows("/topics?sort="+by), -1) {
			names = append(names, m[1])
		}
		return names
	}
	columns := regexp.MustCompile(`<th.*?</th>`).FindAllString(s.shows("/topics"), -1)
	sorted := 0
	for _, c := range columns {
		by := regexp.MustCompile(`sort=-?([a-z0-9]+)`).FindStringSubmatch(c)
		if by == nil {
			continue
		}
		sorted++
		one, other := order(by[1]), order("-"+by[1])
		slices.Reverse(other)
		ties := by[1] == "success" || by[1] == "health" // of two topics, which stay sorted by name
		if len(one) != 5 || !ties && !slices.Equal(one, other) || ties && one[0] == one[4] {
			t.Errorf("by %s: %v, the other way %v", by[1], one, other)
		}
		if !strings.Contains(s.shows("/topics?sort="+by[1]), `aria-sort=`) {
			t.Errorf("no column head shows the order by %s", by[1])
		}
	}
	if sorted != len(columns)-1 { // all but the small chart
		t.Errorf("%d of %d columns can be sorted", sorted, len(columns))
	}
}

// TestEveryTimeIsAbsoluteAndRelative, on every page with times.
func TestEveryTimeIsAbsoluteAndRelative(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	q := newDeadQueue("a", 3)
	for i := range q.jobs["a"] {
		j := &q.jobs["a"][i]
		j.DueAt, j.CreatedAt, j.DeadAt = time.Now().Add(-time.Hour), time.Now().Add(-2*time.Hour),
			time.Now().Add(-time.Minute)
		j.History[0].StartedAt = time.Now().Add(-time.Minute).UnixMilli()
	}
	s := open(t, func(o *Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Queue, o.Alerts = q, store
	}).as("root")
	s.topic("a")
	_, err := store.RaiseAlert(t.Context(),
		alert.Alert{Key: "topic/a", Kind: "breaker", Severity: alert.Critical, Topic: "a"})
	must(t, err)
	must(t, store.AddDelivery(t.Context(),
		alert.Delivery{Channel: "mail", Recipient: "ops@example.com", State: "sent", At: time.Now()}))
	for _, path := range []string{"/dead?topic=a", "/topics/a?tab=jobs&state=dead", "/topics/a/jobs/job-1", "/alerts",
		"/alerts/deliveries",
		"/access", "/audit", "/account"} {
		times := regexp.MustCompile(`(?s)<time.*?</time>`).FindAllString(s.shows(path), -1)
		if len(times) == 0 {
			t.Errorf("%s shows no time", path)
		}
		for _, at := range times {
			if !strings.Contains(at, "data-at=") || !regexp.MustCompile(` ago|^now|in \d|>now`).MatchString(at) {
				t.Errorf("%s shows a time as %s", path, at)
			}
		}
	}
}

// TestTheDeadSayWhyAndWhen, on a topic's page, too; and failed attempts are red, whatever the endpoint answered.
func TestTheDeadSayWhyAndWhen(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 3)
	q.jobs["a"][0].DeadAt = time.Now().Add(-time.Hour)
	q.jobs["a"][0].History[0] = queue.Attempt{N: 3, Status: 200, Error: "retry_if is true for the answer"}
	s := open(t, func(o *Options) { o.Queue, o.Activity = q, failedOnce{} }).as("ops")
	s.topic("a")
	s.shows("/dead?topic=a", "Last error", "Died", "connection refused", "1h ago")
	s.shows("/topics/a?tab=jobs&state=dead", "Last error", "Died", "connection refused", "1h ago")
	for _, path := range []string{"/topics/a/jobs/job-0", "/topics/a?tab=attempts", "/dead?topic=a"} {
		if body := s.shows(path, "retry_if is true", `bg-red-lt">200`); strings.Contains(body, `bg-green-lt">200`) {
			t.Errorf("%s shows the failed attempt in green", path)
		}
	}
	s.post("/language", "choice", "zh-Hans")
	s.shows("/topics/a?tab=attempts", `bg-red-lt">超时`) // by the reason, not by the error's text
}

// failedOnce is the activity of a topic whose endpoint answered 200 but whose attempt failed.
type failedOnce struct{}

func (failedOnce) Attempts(context.Context, string, int) ([]activity.Attempt, error) {
	return []activity.Attempt{{ID: "job-0", N: 3, Status: 200, Outcome: "retry", Reason: "retry_if",
		Error: "retry_if is true for the answer"}, {ID: "job-1", N: 1, Outcome: "retry", Reason: "timeout"}}, nil
}
func (failedOnce) Errors(context.Context, string) ([]queue.ErrorNote, error) { return nil, nil }
func (failedOnce) ClearErrors(context.Context, string) error                 { return nil }

// TestSavingACardLeavesTheOthers: the answer replaces only its card, and shows errors of other cards above the page.
func TestSavingACardLeavesTheOthers(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	for _, card := range []string{"wk-mail", "wk-recipients", "wk-webhooks", "wk-rules"} {
		if body := s.shows("/alerts/settings"); !regexp.MustCompile(`hx-target="(this|#` + card + `)" hx-select="#` + card +
			`"`).MatchString(body) {
			t.Errorf("%s is not sent alone", card)
		}
	}
	res, body := s.part("/alerts/recipients", "recipients", "ops@example.com")
	_, flash, _ := strings.Cut(body, `id="wk-flash"`)
	flash, _, _ = strings.Cut(flash, `class="page-header"`)
	if res.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(flash, "mail.host: required: the recipients need an SMTP server") {
		t.Errorf("%d, above the page: %s", res.StatusCode, flash)
	}
	mail := []string{"mail.host", "h", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com"}
	if res, body := s.part("/alerts/mail", mail...); res.StatusCode != http.StatusOK ||
		res.Header.Get("HX-Redirect") != "" ||
		!strings.Contains(body, "alert-success") || !strings.Contains(body, `name="mail.host" type="text" value="h"`) {
		t.Errorf("saved: %d %v\n%s", res.StatusCode, res.Header, body)
	}
}

// TestARoleChangesWithItsButton, after a confirmation, and not when its select changes.
func TestARoleChangesWithItsButton(t *testing.T) {
	t.Parallel()
	body := open(t, nil).as("root").shows("/access")
	_, form, _ := strings.Cut(body, `action="/access/users/ops/role"`)
	form, _, _ = strings.Cut(form, "</form>")
	if !strings.Contains(form, `data-confirm="`) || !strings.Contains(form, "<button") ||
		strings.Contains(form, "data-submit") {
		t.Errorf("the form of a role is\n%s", form)
	}
}
