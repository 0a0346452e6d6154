package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/wait"
)

// fixedHistory answers every series with the same numbers.
type fixedHistory struct{}

func (fixedHistory) Series(_ context.Context, series, span string) (history.Points, error) {
	two, ten := 2.0, 10.0
	return history.Points{
		Series: series, Span: span, Step: 10, Times: []int64{10, 20}, Sums: map[string]int64{"pushed": 120},
		Values: map[string][]*float64{"pushed": {nil, &two}, "p50": {nil, &ten}},
	}, nil
}

func (s *site) wants(path string, texts ...string) {
	s.Helper()
	status, body := s.get(path)
	if status != http.StatusOK {
		s.Fatalf("%s got %d\n%s", path, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.Errorf("%s lacks %q", path, text)
		}
	}
}

func (s *site) topic(name string) {
	s.Helper()
	topic := registry.NewTopic(name)
	topic.CallbackURL = "http://127.0.0.1:1/"
	if _, err := s.registry.PutTopic(s.Context(), "test", topic); err != nil {
		s.Fatal(err)
	}
}

func TestOverviewLeadsToTheFirstJob(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.APIURL, o.TokenFile = "http://127.0.0.1:7", "/d/api-token" }).as("root")
	s.wants("/", "/topics/-/new", "http://127.0.0.1:7/v1/topics/demo.hello/jobs", "cat /d/api-token")
	s.topic("shop.close")
	s.wants("/", "/v1/topics/shop.close/jobs", "Done: shop.close")
}

// TestOverviewTellsWhatIsWrong: it shows the open alerts, each with a link to its subject.
func TestOverviewTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := open(t, func(o *Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
		o.History = fixedHistory{}
	})
	for _, a := range []alert.Alert{
		{Key: "shard/s1", Kind: "shard_down", Severity: "critical", Shard: "s1", Causes: []alert.Cause{
			{Kind: "shard_down", Severity: "critical", Text: message.Plain("dial tcp: connection refused")}}},
		{Key: "topic/shop.close", Kind: "no_consumer", Severity: "critical", Topic: "shop.close", Causes: []alert.Cause{
			{Kind: "no_consumer", Severity: "critical", N: 1200, For: 3 * time.Minute},
			{Kind: "late", Severity: "warning", N: 1200, For: 21 * time.Minute}}},
		{Key: "4", Kind: "dead", Severity: "critical", Subject: "it is over"},
	} {
		_, err := store.RaiseAlert(t.Context(), a)
		must(t, err)
	}
	_, err := store.EndAlert(t.Context(), "4", "", time.Now())
	must(t, err)
	s.as("look").wants("/", "shard s1 is down", "dial tcp: connection refused", `href="/shards/s1"`,
		"topic shop.close has no consumer", "1200 jobs are ready, but no callbacks", "the oldest for 21m",
		`href="/topics/shop.close"`, "120 in 15 min", "/charts/rates?span=15m")
	if _, page := s.get("/"); strings.Count(page, `href="/topics/shop.close"`) != 1 {
		t.Error("one topic has several lines")
	}
	strip := s.admin.overview.Strip(t.Context())
	if _, page := s.get("/"); strings.Contains(page, "it is over") || !strip.Unattended {
		t.Errorf("an ended alert is shown, or the strip does not show that there is no consumer: %+v", strip)
	}
}

func TestCharts(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.History = fixedHistory{} }).as("look")
	s.wants("/charts/rates?span=3h", `"at":[10,20]`, `{"label":"Pushed","color":"blue","values":[null,2]}`,
		`"values":[null,null]`)
	s.wants("/charts/lateness", `"unit":"ms"`)
	if status, _ := s.get("/charts/nothing"); status != http.StatusNotFound {
		t.Errorf("a chart that does not exist got %d", status)
	}
}

func TestShardsAreRegistered(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	if status, body := s.post("/shards/-/new", "name", "s1", "url", "redis://:hush@h:6379/0", "state",
		"active"); status != http.StatusOK || strings.Contains(body, "hush") {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.wants("/shards", "redis://:***@h:6379/0")
	s.wants("/shards/s1/edit", "redis://:***@h:6379/0")
	if status, _ := s.post("/shards/-/new", "name", "s1", "url", "redis://h:1/0"); status != http.StatusUnprocessableEntity {
		t.Errorf("a name that is in use got %d", status)
	}
	if status, _ := s.post("/shards/s1/edit", "url", "redis://:***@h:6379/0", "state",
		"offline"); status != http.StatusOK {
		t.Errorf("keeping the password got %d", status)
	}
	if status, body := s.post("/shards/s1/edit", "url",
		"redis://:***@elsewhere:6379/0"); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "type the password again") {
		t.Errorf("the stored password for another host got %d", status)
	}
	list := s.registry.ListShards()
	if len(list) != 1 || list[0].URL != "redis://:hush@h:6379/0" || list[0].State != registry.ShardOffline {
		t.Errorf("the registry has %+v", list)
	}
	s.post("/shards/s1/state", "state", "active")
	if status, _ := s.post("/shards/s1/delete"); status != http.StatusConflict {
		t.Errorf("removing an active shard got %d", status)
	}
	s.post("/shards/s1/state", "state", "offline")
	s.post("/shards/s1/delete")
	if list := s.registry.ListShards(); len(list) != 0 {
		t.Errorf("the registry still has %+v", list)
	}
}

func TestConnectionIsTested(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.OpenShard = openShard }).as("root")
	if _, body := s.post("/shards/test", "url", "redis://127.0.0.1:1/0"); !strings.Contains(body, "failed:") ||
		!strings.Contains(body, "refused") {
		t.Errorf("got\n%s", body)
	}
	if _, body := s.post("/shards/test", "url", "nonsense"); !strings.Contains(body, "URL:") {
		t.Errorf("got\n%s", body)
	}
}

func TestShardsNeedRoles(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("ops")
	for _, path := range []string{"/shards/-/new", "/shards/test", "/shards/x/delete", "/alerts/mail", "/alerts/mail/test",
		"/alerts/rules", "/alerts/webhooks"} {
		if status, _ := s.post(path); status != http.StatusForbidden {
			t.Errorf("an operator got %d from %s", status, path)
		}
	}
}

func TestMailSettings(t *testing.T) {
	t.Parallel()
	var sent alert.Mail
	s := open(t, func(o *Options) {
		o.TestMail = func(m alert.Mail, to string, _ *alert.Message) error {
			sent = m
			if to == "ops@example.com" {
				return errors.New("535 5.7.8 <script>wrong password")
			}
			return nil
		}
	}).as("root")
	form := []string{
		"mail.host", "smtp.example.com", "mail.port", "587", "mail.tls", "starttls", "mail.username", "u", "mail.password",
		"hush",
		"mail.from", "w@example.com",
	}
	if status, body := s.post("/alerts/mail", form...); status != http.StatusOK || strings.Contains(body, "hush") {
		t.Fatalf("got %d\n%s", status, body)
	}
	form[9] = "" // the stored password is used
	if _, body := s.post("/alerts/mail/test", append(form, "to", "ops@example.com")...); !strings.Contains(body,
		"535 5.7.8 &lt;script&gt;wrong password") {
		t.Errorf("got\n%s", body)
	}
	if sent.Password != "hush" {
		t.Error("the test did not use the stored password")
	}
	if _, body := s.post("/alerts/mail/test", append(form, "to", "else@example.com")...); !strings.Contains(body,
		"Sent to else@example.com") {
		t.Errorf("got\n%s", body)
	}
	form[1] = "elsewhere.example.com"
	if status, _ := s.post("/alerts/mail", form...); status != http.StatusUnprocessableEntity {
		t.Errorf("the stored password for another server got %d", status)
	}
	if status, body := s.post("/alerts/mail", "mail.host", "a b", "mail.port", "0", "mail.tls", "x", "mail.from",
		"y"); status != http.StatusUnprocessableEntity ||
		strings.Count(body, "invalid-feedback") < 4 {
		t.Errorf("got %d\n%s", status, body)
	}
}

func TestRecipientsRulesAndWebhooks(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	if status, body := s.post("/alerts/recipients", "recipients",
		"a@example.com"); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "the recipients need an SMTP server") {
		t.Errorf("recipients without a server got %d", status)
	}
	s.post("/alerts/mail", "mail.host", "h", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com")
	if status, _ := s.post("/alerts/recipients", "recipients",
		"a@example.com critical\n\nb@example.com shop.* owner=shop\n"); status != http.StatusOK {
		t.Errorf("recipients got %d", status)
	}
	rules := []string{
		"ledger", "on", "no_consumer", "7m30s", "no_worker", "4m", "no_worker_jobs", "50", "lateness", "0", "failing_share",
		"25", "failing_least",
		"20", "dead_jobs", "3",
		"remind_after", "1h", "over_after", "2m", "group_wait", "30s", "digest_after", "10m", "max_per_hour", "12",
		"language", "zh-Hans",
	}
	if status, body := s.post("/alerts/rules", rules...); status != http.StatusOK ||
		!strings.Contains(body, `value="7m30s"`) || !strings.Contains(body, `value="1h"`) {
		t.Errorf("rules got %d", status)
	}
	now, err := alert.Read(s.registry.Snapshot())
	if err != nil || len(now.Recipients) != 2 || now.Recipients[1].Owners[0] != "shop" || now.MaxPerHour != 12 ||
		now.Language != "zh-Hans" || now.Rules.Shards || !now.Rules.Ledger ||
		now.Rules.NoWorkerJobs != 50 || now.Rules.FailingShare != 0.25 || now.Rules.Lateness != 0 {
		t.Errorf("the settings are %+v, %v", now, err)
	}
	late := append(slices.Clone(rules), "objectives", "shop.* 30s\norders 500ms\n")
	if status, body := s.post("/alerts/rules", late...); status != http.StatusOK ||
		!strings.Contains(body, ">orders 500ms\nshop.* 30s\n</textarea>") {
		t.Errorf("objectives got %d", status)
	}
	for typed, want := range map[string]string{
		"shop.* soon": "&#34;soon&#34; of &#34;shop.*&#34; is not a duration",
		"a*b 30s":     "&#34;a*b&#34; is not a pattern", "shop.*": "and a duration, such as",
	} {
		late[len(late)-1] = typed
		if status, body := s.post("/alerts/rules", late...); status != http.StatusUnprocessableEntity ||
			!strings.Contains(body, want) || !strings.Contains(body, ">"+typed+"</textarea>") {
			t.Errorf("%q got %d", typed, status)
		}
	}
	rules[3] = "soon"
	if status, body := s.post("/alerts/rules", rules...); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "is not a duration") {
		t.Errorf("a wrong duration got %d", status)
	}
	hook := []string{"webhooks.name", "chat", "preset", "slack", "webhooks.url", "https://hooks.example.com/services/hush"}
	if status, body := s.post("/alerts/webhooks", hook...); status != http.StatusOK ||
		!strings.Contains(body, "https://hooks.example.com/…") || strings.Contains(body, "hush") {
		t.Errorf("a webhook got %d", status)
	}
	if status, _ := s.post("/alerts/webhooks", hook...); status != http.StatusUnprocessableEntity {
		t.Errorf("the same name again got %d", status)
	}
	s.post("/alerts/webhooks/delete", "name", "chat")
	if now, _ := alert.Read(s.registry.Snapshot()); len(now.Webhooks) != 0 || now.Mail.Host != "h" {
		t.Errorf("the settings are %+v", now)
	}
}

func TestAlertsPage(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := open(t, func(o *Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
	})
	for _, key := range []string{"a", "b"} {
		if _, err := store.RaiseAlert(t.Context(),
			alert.Alert{Key: key, Kind: "shard_down", Severity: "critical", Subject: "<script>" + key}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.EndAlert(t.Context(), "b", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := store.AddDelivery(t.Context(),
		alert.Delivery{Channel: "mail", Recipient: "ops@example.com", State: "failed", Error: "421 busy",
			At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.as("look").wants("/alerts", "&lt;script&gt;a", "&lt;script&gt;b", "critical")
	s.wants("/alerts/deliveries", "421 busy")
	s.wants("/", "&lt;script&gt;a")
}

// TestTheWorstTenAreShown, one line per topic, in both languages; muted alerts are counted.
func TestTheWorstTenAreShown(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := open(t, func(o *Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
	})
	for i := range 25 {
		name, severity := fmt.Sprint("t", i), alert.Warning
		if i == 24 {
			severity = alert.Critical
		}
		_, err := store.RaiseAlert(t.Context(), alert.Alert{
			Key: "topic/" + name, Kind: "breaker", Severity: severity, Topic: name,
			Causes: []alert.Cause{
				{Kind: "breaker", Severity: severity, N: 12, Answer: "429"}, {Kind: "late", For: 90 * time.Second},
			},
		})
		must(t, err)
	}
	lines := func() int {
		t.Helper()
		_, body := s.get("/")
		_, card, _ := strings.Cut(body, `id="wk-problems"`)
		return strings.Count(card, "list-group-item-action")
	}
	s.as("look").wants("/", "and 16 more", "topic t24: the endpoint is failing", "the endpoint returns 429: 12 calls")
	if n := lines(); n != 10 {
		t.Errorf("there are %d lines", n)
	}
	if status, _ := s.post("/alerts/handle", "key", "topic/t24", "why", "mine"); status != http.StatusForbidden {
		t.Errorf("a viewer acknowledges: %d", status)
	}
	s.as("ops")
	s.post("/alerts/handle", "key", "topic/t24", "why", "being repaired")
	s.post("/alerts/handle", "key", "topic/t1", "why", "known", "mute", "1", "for", "24h")
	s.post("/alerts/handle", "key", "topic/gone", "why", "known")
	if _, body := s.post("/alerts/handle", "key", "topic/t2", "why", " "); !strings.Contains(body, "Enter a reason.") {
		t.Error("no reason is requested")
	}
	s.wants("/alerts", "Muted by ops: known. Until", "Acknowledged by ops: being repaired")
	wait.For(t, "the overview to follow", func() bool {
		_, body := s.get("/")
		return strings.Contains(body, "and 15 more") && strings.Contains(body, "1 muted") &&
			strings.Contains(body, "Acknowledged by ops: being repaired")
	})
	s.post("/alerts/handle", "key", "topic/t1", "undo", "1")
	wait.For(t, "the overview to follow", func() bool {
		_, body := s.get("/")
		return strings.Contains(body, "and 16 more") && !strings.Contains(body, "muted")
	})
	s.post("/language", "choice", "zh-Hans")
	s.wants("/", "端点返回 429：连续 12 次", "最早的已等待 1 分 30 秒", "还有 16 个")
}

func TestEveryPageCanBeParsedInEveryLanguage(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for code, templates := range s.admin.page.Templates() {
		if err := templates.ParseAll(); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func openShard(ctx context.Context, s registry.Shard) (*queue.Shard, func(), error) {
	q := queue.Open(queue.Options{Timeout: time.Second})
	done := func() { _ = q.Close() }
	if err := q.SetShards(ctx, []queue.ShardConfig{{Name: s.Name, URL: s.URL, State: string(s.State)}}); err != nil {
		return nil, done, err
	}
	return q.Shards()[0], done, nil
}

// TestTheWorstAlertsAreListed, if there are more than the page shows: an old critical one before newer warnings.
func TestTheWorstAlertsAreListed(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("look")
	store := alert.NewStore(s.registry.DB())
	for i := range 203 {
		a := alert.Alert{Key: fmt.Sprint("topic/t", i), Topic: fmt.Sprint("t", i), Kind: "late", Severity: alert.Warning}
		if i == 0 {
			a.Severity = alert.Critical
		}
		a.Causes = []alert.Cause{{Kind: a.Kind, Severity: a.Severity}}
		_, err := store.RaiseAlert(t.Context(), a)
		must(t, err)
	}
	s.shows("/alerts", "topic t0 is late", ">203</span>", "Only the 200 most severe are listed.")
	s.shows("/alerts?kind=late", "topic t0 is late")
}
