package topics_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func TestTopicsAreFoundSortedAndPaged(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	for i := range 60 {
		x := registry.NewTopic(fmt.Sprintf("team.t%02d", i))
		x.CallbackURL, x.Owner = "http://127.0.0.1:1/", fmt.Sprint("owner", i%2)
		if _, err := s.Registry.PutTopic(t.Context(), "test", x); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		q.Push(t.Context(), store.Push{Topic: "team.t42", ID: fmt.Sprint(i), Delay: time.Hour})
	}
	s.As("look")
	if body := s.Shows("/topics?q=team", "1–50 of 60"); strings.Contains(body, "team.t55") ||
		strings.Contains(body, "shop.close") {
		t.Error("the first page shows a topic of another page")
	}
	s.Shows("/topics?q=team&page=2", "team.t55", "51–60 of 60")
	s.Shows("/topics?q=owner1+team.t5", "team.t51", "1–5 of 5")
	body := s.Shows("/topics?sort=delayed", "team.t42")
	if first := regexp.MustCompile(`href="/topics/([a-z0-9.]+)"`).FindStringSubmatch(body); first == nil ||
		first[1] != "team.t42" {
		t.Errorf("sorted by delayed jobs, the first is %v", first)
	}
	if status, _ := s.Get("/topics/-/new"); status != http.StatusForbidden {
		t.Errorf("a viewer may create topics: %d", status)
	}
	if status, _ := s.Get("/topics/nobody"); status != http.StatusNotFound {
		t.Errorf("an unknown topic: %d", status)
	}
}

func TestTopicsAreSortedByHealthBothWays(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	for _, name := range []string{"a", "b", "c"} {
		s.AddTopic(name)
	}
	s.Queue.ByTopic = map[string]store.Stats{"a": {}, "b": {Ready: 3, OldestReady: time.Hour}, "c": {Ready: 9}}
	s.Post("/topics/c/pause")
	for query, want := range map[string]string{"health": "bca", "-health": "acb", "ready": "cba", "-ready": "abc",
		"oldest": "bac", "name": "abc", "-name": "cba"} {
		body, order := s.Shows("/topics?sort="+query), ""
		for _, part := range strings.Split(body, `class="fw-bold" href="/topics/`)[1:] {
			order += part[:1]
		}
		if order != want {
			t.Errorf("by %s: %s, want %s", query, order, want)
		}
	}
	s.Shows("/topics", "late", "paused", "healthy", `data-live="topics:`)
}

// sick has topics with different problems: one with failures only, one without deliveries because of its breaker, one
// that is late.
type sick struct {
	admintest.Queue
	admintest.FixedHistory
}

func (*sick) TopicLimits(context.Context, []string) (map[string]observe.TopicLimits, error) {
	return map[string]observe.TopicLimits{"broken": {Failures: 12, BreakerOpen: time.Now().Add(time.Hour)}}, nil
}

func (q *sick) Totals(_ context.Context, topics []string) (map[string]observe.TopicTotals, error) {
	all := map[string]observe.TopicTotals{}
	for _, name := range topics {
		n := int64(len(name))
		all[name] = observe.TopicTotals{Stats: q.ByTopic[name],
			Today: observe.Totals{Pushed: 9 * n, Delivered: 7 * n, Failed: 5 * n, Deleted: 3 * n}}
	}
	return all, nil
}

func (*sick) Series(_ context.Context, series, span string) (history.Points, error) {
	n := 4.0
	p := history.Points{Series: series, Span: span, Step: 10, Times: []int64{10, 20}, Values: map[string][]*float64{
		"delivered": {nil, &n},
	}, Sums: map[string]int64{"delivered": int64(len(series)), "failed": 1}}
	switch series {
	case "broken", "one":
		p.Sums = map[string]int64{"failed": 1}
	case "some", "healed":
		p.Sums = map[string]int64{"delivered": 4, "failed": 6}
	}
	return p, nil
}

// sickCalls are the calls of these topics.
type sickCalls struct{ admintest.NoActivity }

func (sickCalls) Lateness(_ context.Context, topics []string, _ time.Time) (map[string]activity.Histogram, error) {
	list := map[string]activity.Histogram{}
	for _, name := range topics {
		list[name] = activity.Histogram{}
		list[name].AddWaiting(10_000, time.Duration(len(name))*100*time.Millisecond)
	}
	return list, nil
}

// Attempts returns those of healed, which were delivered in the last minute.
func (sickCalls) Attempts(_ context.Context, topic string, _ int) ([]activity.Attempt, error) {
	if topic == "healed" {
		return []activity.Attempt{{Outcome: "done"}, {Outcome: "done"}, {Outcome: "retry"}}, nil
	}
	return []activity.Attempt{{Outcome: "done"}, {Outcome: "retry"}}, nil
}

// sickSite has a topic for each state of health.
func sickSite(t *testing.T) (*admintest.Site, *sick) {
	q := &sick{}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.History, o.Activity = q, q, sickCalls{} }).As("ops")
	q.ByTopic = map[string]store.Stats{}
	for i, name := range []string{"broken", "one", "some", "waiting", "well.known"} {
		s.AddTopic(name)
		n := int64(i + 1)
		q.ByTopic[name] = store.Stats{Delayed: n, Ready: 2 * n, Running: 3 * n, Dead: 4 * n,
			OldestReady: time.Duration(i) * time.Millisecond}
	}
	q.ByTopic["waiting"] = store.Stats{Delayed: 4, Ready: 8, Running: 12, Dead: 16, OldestReady: time.Hour}
	return s, q
}

// TestABrokenTopicIsNotHealthy: the list shows each topic's health, success rate, p99 and longest wait.
func TestABrokenTopicIsNotHealthy(t *testing.T) {
	t.Parallel()
	s, q := sickSite(t)
	pull := registry.NewTopic("unworked")
	pull.Delivery = registry.DeliveryPull
	_, err := s.Registry.PutTopic(t.Context(), "test", pull)
	admintest.Must(t, err)
	s.AddTopic("healed")
	q.ByTopic["unworked"] = store.Stats{Ready: 155, OldestReady: time.Minute}
	body := s.Shows("/topics", `data-live="topics:`)
	for name, want := range map[string][]string{
		"broken": {"breaker open", "bg-red-lt", ">0/1<", "ms</td>", "<polyline"},
		"one":    {"few attempts", "bg-secondary-lt", ">0/1<"},
		"some":   {"failing", "40.0%"}, "healed": {"healthy", "40.0%"}, "waiting": {"late", "bg-orange-lt", "1h"},
		"unworked": {"no worker", "bg-red-lt"}, "well.known": {"healthy", "bg-green-lt", "90.9%", "ms</td>"},
	} {
		_, row, _ := strings.Cut(body, `href="/topics/`+name+`">`)
		row, _, _ = strings.Cut(row, "</tr>")
		for _, part := range want {
			if !strings.Contains(row, part) {
				t.Errorf("the row of %s lacks %q:\n%s", name, part, row)
			}
		}
	}
	s.Shows("/topics/broken", "breaker open", "0/1")
}

// TestTheWorstTopicComesFirst, and of those with the same problem the one with the most jobs.
func TestTheWorstTopicComesFirst(t *testing.T) {
	t.Parallel()
	s, q := sickSite(t)
	late := q.ByTopic["waiting"]
	late.Ready *= 2
	q.ByTopic["later"] = late
	s.AddTopic("later")
	var names []string
	for _, m := range regexp.MustCompile(`class="fw-bold" href="/topics/([a-z.]+)"`).
		FindAllStringSubmatch(s.Shows("/topics"), -1) {
		names = append(names, m[1])
	}
	want := []string{"broken", "some", "later", "waiting", "one", "well.known"}
	if !slices.Equal(names, want) {
		t.Errorf("the order is %v, want %v", names, want)
	}
}

// TestTopicsOfAnOwner: the list offers the owners that there are, also while it shows those of one.
func TestTopicsOfAnOwner(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	for name, owner := range map[string]string{"shop.close": "team-shop", "mail.send": "team-mail", "cron": ""} {
		topic := registry.NewTopic(name)
		topic.CallbackURL, topic.Owner = "http://127.0.0.1:1/", owner
		_, err := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, err)
	}
	body := s.Shows("/topics?owner=team-mail", `href="/topics/mail.send"`, "<option selected>team-mail</option>",
		"<option>team-shop</option>")
	for _, other := range []string{"shop.close", "cron"} {
		if strings.Contains(body, `href="/topics/`+other+`"`) {
			t.Errorf("the topics of team-mail include %s", other)
		}
	}
}

// TestTopicsAreSortedByEveryColumnBothWays, by the links in the head of the table.
func TestTopicsAreSortedByEveryColumnBothWays(t *testing.T) {
	t.Parallel()
	s, _ := sickSite(t)
	order := func(by string) (names []string) {
		for _, m := range regexp.MustCompile(`class="fw-bold" href="/topics/([a-z.]+)"`).
			FindAllStringSubmatch(s.Shows("/topics?sort="+by), -1) {
			names = append(names, m[1])
		}
		return names
	}
	columns := regexp.MustCompile(`<th.*?</th>`).FindAllString(s.Shows("/topics"), -1)
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
		if !strings.Contains(s.Shows("/topics?sort="+by[1]), `aria-sort=`) {
			t.Errorf("no column head shows the order by %s", by[1])
		}
	}
	if sorted != len(columns)-1 { // all but the small chart
		t.Errorf("%d of %d columns can be sorted", sorted, len(columns))
	}
}
