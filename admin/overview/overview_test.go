package overview_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe/relays"
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
		"topic shop.close has no consumer", "1200 jobs are ready, but no callbacks", "the oldest for 21m",
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

// TestTheWorstTenAreShown, one line per topic, in both languages; muted alerts are counted.
func TestTheWorstTenAreShown(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
	})
	for i := range 25 {
		name, severity := fmt.Sprint("t", i), alert.Warning
		if i == 24 {
			severity = alert.Critical
		}
		admintest.SaveAlert(t, store, alert.Alert{
			Key: "topic/" + name, Kind: "breaker", Severity: severity, Topic: name,
			Causes: []alert.Cause{
				{Kind: "breaker", Severity: severity, N: 12, Answer: "429"}, {Kind: "late", For: 90 * time.Second},
			},
		})
	}
	lines := func() int {
		t.Helper()
		_, body := s.Get("/")
		_, card, _ := strings.Cut(body, `id="wk-problems"`)
		return strings.Count(card, "list-group-item-action")
	}
	s.As("look").Shows("/", "and 16 more", "topic t24: the endpoint is failing", "the endpoint returns 429: 12 calls")
	if n := lines(); n != 10 {
		t.Errorf("there are %d lines", n)
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
		return strings.Contains(body, "and 15 more") && strings.Contains(body, "1 muted") &&
			strings.Contains(body, "Acknowledged by ops: being repaired")
	})
	s.Post("/alerts/handle", "key", "topic/t1", "undo", "1")
	wait.For(t, "the overview to follow", func() bool {
		_, body := s.Get("/")
		return strings.Contains(body, "and 16 more") && !strings.Contains(body, "muted")
	})
	s.Post("/language", "choice", "zh-Hans")
	s.Shows("/", "端点返回 429：连续 12 次", "最早的已等待 1 分 30 秒", "另有 16 个")
}

// TestTheMenuCountsWhatIsWrong: no shard is a problem, which the menu and the title of the tab count.
func TestTheMenuCountsWhatIsWrong(t *testing.T) {
	t.Parallel()
	q := admintest.NewDeadQueue("a", 7)
	s := admintest.OpenDead(t, q)
	s.Strip()
	s.Shows("/", `data-count-of="dead"`, `&#34;dead&#34;: 7`, `&#34;overview&#34;: 1`)
}
