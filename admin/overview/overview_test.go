package overview_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

func TestOverviewLeadsToTheFirstJob(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) {
		o.APIURL, o.TokenFile = "http://127.0.0.1:7",
			"/d/api-token"
	}).As("root")
	s.Shows("/", "/topics/-/new", "http://127.0.0.1:7/v1/topics/demo.hello/jobs", "cat /d/api-token")
	s.AddTopic("shop.close")
	s.Shows("/", "/v1/topics/shop.close/jobs", "Done: shop.close")
}

// TestOverviewTellsWhatIsWrong: it shows the open alerts, each with a link to its subject.
func TestOverviewTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
		o.History = admintest.FixedHistory{}
	})
	for _, a := range []alert.Alert{
		{Key: "shard/s1", Kind: "shard_down", Severity: "critical", Shard: "s1", Causes: []alert.Cause{
			{Kind: "shard_down", Severity: "critical", Text: message.Plain("dial tcp: connection refused")}}},
		{Key: "topic/shop.close", Kind: "no_consumer", Severity: "critical", Topic: "shop.close", Causes: []alert.Cause{
			{Kind: "no_consumer", Severity: "critical", N: 1200, For: 3 * time.Minute},
			{Kind: "late", Severity: "warning", N: 1200, For: 21 * time.Minute}}},
		{Key: "4", Kind: "shard_down", Severity: "critical", EndedAt: new(time.Now()), Causes: []alert.Cause{
			{Kind: "shard_down", Severity: "critical", Text: message.Plain("it is over")}}},
	} {
		admintest.SaveAlert(t, store, a)
	}
	s.As("look").Shows("/", "shard s1 is down", "dial tcp: connection refused", `href="/shards/s1"`,
		"topic shop.close has no consumer", "1200 jobs are ready, but no callbacks", `<div class="card border-red`,
		`href="/topics/shop.close"`, ">120<", "/charts/rates?span=15m")
	if _, page := s.Get("/"); strings.Count(page, `href="/topics/shop.close"`) != 1 {
		t.Error("one topic has several lines")
	}
	strip := s.Strip()
	if _, page := s.Get("/"); strings.Contains(page, "it is over") || !strings.Contains(strip, "no consumer") {
		t.Errorf("an ended alert is shown, or the strip does not show that there is no consumer: %s", strip)
	}
}

func TestOverviewShowsRelays(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) {
		o.Relays = func(context.Context) ([]relays.Relay, error) {
			now := o.Now()
			return []relays.Relay{
				{Name: "shop-db", SeenAt: now},
				{Name: "crm-db", SeenAt: now, Report: relays.Report{OldestMS: 420_000, Waiting: 1234, Error: "<no> token"}},
				{Name: "bills-db", SeenAt: now.Add(-time.Hour), Report: relays.Report{SetAside: 7}},
			}, nil
		}
	}).As("look")
	body := s.Shows("/", "Outbox relays", "&lt;no&gt; token", ">7m<", ">1,234<", ">7 set aside<")
	for name, state := range map[string]string{"shop-db": "up", "crm-db": "late", "bills-db": "silent"} {
		if _, row, _ := strings.Cut(body, ">"+name); !strings.Contains(strings.SplitN(row, "</tr>", 2)[0], ">"+state+"<") {
			t.Errorf("%s is not shown as %s", name, state)
		}
	}
	if _, body := admintest.Open(t, nil).As("look").Get("/"); strings.Contains(body, "Outbox relays") {
		t.Error("relays are shown although none reports")
	}
}

// ready is a queue whose topics have ready jobs.
type ready struct {
	admintest.Queue
	jobs map[string]int64
}

func (q *ready) Counts(context.Context) (map[string]store.Stats, error) {
	stats := map[string]store.Stats{}
	for name, n := range q.jobs {
		stats[name] = store.Stats{Ready: n}
	}
	return stats, nil
}

// troubled serves an admin whose topics have alerts: name, owner, kind, severity, answer, and ready jobs.
func troubled(t *testing.T, topics [][5]string, jobs map[string]int64) *admintest.Site {
	t.Helper()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts, o.Queue = store, &ready{jobs: jobs}
	})
	for n, x := range topics {
		topic := registry.NewTopic(x[0])
		topic.CallbackURL, topic.Owner = "http://127.0.0.1:1/hook", x[1]
		_, err := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, err)
		admintest.SaveAlert(t, store, alert.Alert{Key: "topic/" + x[0], Topic: x[0], Kind: x[2], Severity: x[3],
			BeganAt: time.Now().Add(-time.Duration(n+1) * time.Hour),
			Causes:  []alert.Cause{{Kind: x[2], Severity: x[3], Answer: x[4], N: 12}}})
	}
	return s.As("ops")
}

var problem = regexp.MustCompile(`(?s)<a class="list-group-item.*?href="([^"]*)".*?</a>`)

// problems returns the problems that the overview shows: the link, and the text.
func problems(s *admintest.Site) (links, texts []string) {
	_, body := s.Get("/")
	_, card, _ := strings.Cut(body, `id="wk-problems"`)
	for _, found := range problem.FindAllStringSubmatch(card, -1) {
		links = append(links, found[1])
		texts = append(texts, regexp.MustCompile(`(?:<[^>]*>|\s)+`).ReplaceAllString(found[0], " "))
	}
	return links, texts
}

// TestProblemsAreGroupedByCauseAndRanked: by severity, then by the jobs that wait. An acknowledged problem is the last.
func TestProblemsAreGroupedByCauseAndRanked(t *testing.T) {
	t.Parallel()
	s := troubled(t, [][5]string{
		{"pay.late", "payments", "late", alert.Warning, ""},
		{"pay.a", "payments", "breaker", alert.Critical, "500"},
		{"pay.b", "payments", "breaker", alert.Critical, "500"},
		{"pay.c", "payments", "breaker", alert.Critical, "500"},
		{"crm.sync", "crm", "breaker", alert.Critical, "500"},
		{"pay.slow", "payments", "breaker", alert.Critical, "timeout"},
		{"gone.a", "old", "no_consumer", alert.Critical, ""},
		{"pay.held", "payments", "paused", alert.Info, ""},
	}, map[string]int64{"pay.late": 9000, "pay.a": 1000, "pay.b": 700, "pay.c": 34, "crm.sync": 50, "pay.slow": 2000})
	s.Post("/alerts/handle", "key", "topic/gone.a", "why", "it is being removed")
	want := [][]string{
		{"No active shard"}, // of this test
		{"topic pay.slow: the endpoint times out", "2,000 jobs wait", "owner: payments"},
		{"3 topics of payments: the endpoint returns 500", "Since 4h ago", "1,734 jobs wait"},
		{"topic crm.sync: the endpoint returns 500", "50 jobs wait", "owner: crm"},
		{"topic pay.late is late", "9,000 jobs wait"},
		{"topic pay.held is paused"},
		{"topic gone.a has no consumer", "Acknowledged by ops: it is being removed"},
	}
	links, texts := problems(s)
	if len(texts) != len(want) {
		t.Fatalf("there are %d problems:\n%s", len(texts), strings.Join(texts, "\n"))
	}
	for i, parts := range want {
		for _, part := range parts {
			if !strings.Contains(texts[i], part) {
				t.Errorf("problem %d does not say %q: %s", i, part, texts[i])
			}
		}
	}
	if links[1] != "/topics/pay.slow" || strings.Contains(texts[2], "owner: ") {
		t.Errorf("%s leads to %s; %s", texts[1], links[1], texts[2])
	}
	body := s.Shows(links[2], "3 topics of payments: the endpoint returns 500", "pay.a", "pay.b", "pay.c")
	if strings.Contains(body, "crm.sync") {
		t.Errorf("%s shows other alerts, too", links[2])
	}
	if strings.Contains(s.Shows("/alerts", "crm.sync"), "bg-red-lt\">critical</span><a class=\"wk-break fw-bold "+
		"text-decoration-underline\" href=\"/topics/gone.a") {
		t.Error("an acknowledged alert is red")
	}
}

// TestTheCardHasTheColorOfTheWorstProblem: only what somebody has to act on is red, in the menu, too.
func TestTheCardHasTheColorOfTheWorstProblem(t *testing.T) {
	t.Parallel()
	s := troubled(t, [][5]string{{"held", "", "paused", alert.Info, ""}}, nil)
	admintest.Must(t, s.Registry.PutShard(t.Context(), "test", registry.Shard{Name: "s1",
		URL: "redis://127.0.0.1:1", State: registry.ShardActive}))
	s.Shows("/", `<div class="card border-azure`, "topic held is paused")
}

// TestTheWorstProblemsAreShown, in both languages; muted alerts are counted.
func TestTheWorstProblemsAreShown(t *testing.T) {
	t.Parallel()
	var topics [][5]string
	for i := range 25 {
		severity := alert.Warning
		if i == 24 {
			severity = alert.Critical
		}
		topics = append(topics, [5]string{fmt.Sprint("t", i), fmt.Sprint("team ", i), "breaker", severity, "429"})
	}
	s := troubled(t, topics, nil)
	s.As("look").Shows("/", "and 18 more", "topic t24: the endpoint returns 429")
	if _, lines := problems(s); len(lines) != 8 {
		t.Errorf("there are %d lines", len(lines))
	}
	if status, _ := s.Post("/alerts/handle", "key", "topic/t24", "why", "mine"); status != http.StatusForbidden {
		t.Errorf("a viewer acknowledges: %d", status)
	}
	s.As("ops")
	s.Post("/alerts/handle", "key", "topic/t24", "why", "being repaired")
	s.Post("/alerts/handle", "key", "topic/t1", "why", "known", "mute", "1", "for", "24h")
	s.Post("/alerts/handle", "key", "topic/gone", "why", "known")
	if _, body := s.Post("/alerts/handle", "key", "topic/t2", "why", " "); !strings.Contains(body, "Enter a reason.") {
		t.Error("no reason is requested")
	}
	s.Shows("/alerts", "Muted by ops: known. Until", "Acknowledged by ops: being repaired")
	wait.For(t, "the overview to follow", func() bool {
		_, body := s.Get("/")
		return strings.Contains(body, "and 17 more") && strings.Contains(body, "1 muted") &&
			!strings.Contains(body, "topic t24")
	})
	s.Post("/alerts/handle", "key", "topic/t1", "undo", "1")
	wait.For(t, "the overview to follow", func() bool {
		_, body := s.Get("/")
		return strings.Contains(body, "and 18 more") && !strings.Contains(body, "muted")
	})
	s.Post("/language", "choice", "zh-Hans")
	s.Shows("/", "主题 t23：端点返回 429", "另有 18 个")
}

// TestTheMenuCountsWhatIsWrong: no shard is a problem, which the menu and the title of the tab count.
func TestTheMenuCountsWhatIsWrong(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 7)
	s := admintest.OpenDead(t, q)
	s.Strip()
	s.Shows("/", `data-count-of="dead"`, `&#34;dead&#34;: 7`, `&#34;overview&#34;: 1`,
		`data-urgent="overview shards processes"`)
}
