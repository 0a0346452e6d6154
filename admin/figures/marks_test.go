package figures_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
)

// TestChartsShowTheRangeOfTheAddress: a link with from and to shows this time, and leads back, earlier, later and out.
func TestChartsShowTheRangeOfTheAddress(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.History = admintest.FixedHistory{} }).As("look")
	s.AddTopic("shop.close")
	to := time.Now().UTC().Add(-time.Hour).Truncate(time.Minute)
	at := func(minutes time.Duration) string { return to.Add(minutes * time.Minute).Format(time.RFC3339) }
	escaped := func(name string, minutes time.Duration) string { return name + "=" + url.QueryEscape(at(minutes)) }
	query := url.Values{"span": {"3h"}, "from": {at(-20)}, "to": {at(0)}}.Encode()
	s.Shows("/charts/rates?"+query, fmt.Sprintf(`"at":[%d,%d]`, to.Unix()-1200, to.Unix()), `"values":[null,7]`)
	for _, path := range []string{"/", "/topics/shop.close"} {
		body := s.Shows(path+"?"+query, escaped("from", -30), escaped("to", 10), `title="Zoom out"`,
			`value="`+to.Format("2006-01-02T15:04:05")+`"`)
		if strings.Contains(body, "data-chart-every") || !strings.Contains(body, "/charts/marks?series=") {
			t.Errorf("%s reads a time that is over again, or has no events", path)
		}
	}
	form := url.Values{"from": {to.Add(-time.Hour).Format("2006-01-02T15:04")}, "to": {to.Format("2006-01-02T15:04")}}
	s.Shows("/charts/rates?"+form.Encode(), fmt.Sprintf(`"at":[%d,%d]`, to.Unix()-3600, to.Unix()))
	for _, wrong := range []string{"from=x&to=y", "from=" + at(0) + "&to=" + at(-20),
		"from=" + at(1000) + "&to=" + at(2000), "from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z"} {
		s.Shows("/charts/rates?"+wrong, `"at":[10,20]`)
	}
}

// failingHistory has an endpoint that fails for two slots, and then answers.
type failingHistory struct{ admintest.FixedHistory }

func (failingHistory) All(_ context.Context, topic string) ([]history.Points, error) {
	if topic != "shop.close" {
		return nil, nil
	}
	one, none := 1.0, 0.0
	now := time.Now().Unix() / 10 * 10
	return []history.Points{{Step: 10, Times: []int64{now - 40, now - 30, now - 20, now - 10},
		Values: map[string][]*float64{"delivered": {&one, &none, &none, &one}, "failed": {&none, &one, &one, &none}}}}, nil
}

// TestChartsMarkWhatHappened: alerts, pauses, edits, and when the endpoint answered again, on the axis of the charts.
func TestChartsMarkWhatHappened(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts, o.History = store, failingHistory{}
	})
	s.AddTopic("shop.close")
	s.AddTopic("other")
	topic := *s.Registry.Snapshot().Topics.Get("shop.close")
	topic.RateLimit = 5
	put := func() {
		t.Helper()
		_, err := s.Registry.PutTopic(t.Context(), "user/ops", topic)
		admintest.Must(t, err)
	}
	put()
	topic.State = registry.TopicPaused
	put()
	admintest.Must(t, s.Registry.SetPauseReason(t.Context(), "user/ops", "shop.close", "deploy <b>"))
	topic.State = registry.TopicActive
	put()
	began := time.Now().Add(-10 * time.Minute)
	for key, a := range map[string]alert.Alert{
		"topic/shop.close": {Topic: "shop.close", BeganAt: began},
		"topic/other":      {Topic: "other", BeganAt: began.Add(-time.Hour), EndedAt: new(began.Add(-50 * time.Minute))},
	} {
		a.Key, a.Kind, a.Severity = key, "breaker", alert.Critical
		a.Causes = []alert.Cause{{Kind: "breaker", Severity: alert.Critical, N: 12, Answer: "429"}}
		admintest.SaveAlert(t, store, a)
	}
	s.As("look")
	body := s.Shows("/charts/marks?series=shop.close&span=15m", "rate_limit 0 → 5 (user/ops)", "paused (user/ops)",
		"reason for the pause: deploy &lt;b&gt; (user/ops)", "resumed (user/ops)", "topic shop.close: the endpoint is failing",
		"still open", "begins to fail: 20 failed attempts", "first delivery after 20 failed attempts")
	if strings.Contains(body, "other") {
		t.Error("a topic has the events of another one")
	}
	s.Shows("/charts/marks?series=*&span=3h", "topic/shop.close: paused", "topic/other: added",
		"topic other: the endpoint is failing", "over after 10m")
	if body := s.Shows("/charts/marks?series=*&span=15m"); strings.Contains(body, "topic other: the endpoint") {
		t.Error("an alert that ended before is shown")
	}
}

// TestAFailureBeginsAtOneTime in the charts of every range, also in one that begins later.
func TestAFailureBeginsAtOneTime(t *testing.T) {
	t.Parallel()
	var store *history.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = history.NewStore(o.Registry.DB())
		o.History = &history.Reader{Store: store}
	})
	s.AddTopic("shop.close")
	s.AddTopic("bank.orders")
	now := time.Now().UTC()
	marks := map[string]string{}
	for topic, began := range map[string]time.Time{
		"shop.close": now.Add(-40 * time.Minute).Truncate(time.Minute), "bank.orders": now.Add(-20 * time.Hour).Truncate(10 * time.Minute),
	} {
		var samples []history.Sample
		for tier, step := range map[string]time.Duration{"1m": time.Minute, "10m": 10 * time.Minute} {
			for at, n := now.Truncate(step), 280; n > 0; at, n = at.Add(-step), n-1 {
				delivered, failed := min(0, at.Sub(began)), max(0, at.Sub(began))
				samples = append(samples, history.Sample{Series: topic, Tier: tier, At: at,
					Data: fmt.Appendf(nil, `{"f":%.0f,"d":%.0f}`, failed.Minutes(), 10_000+delivered.Minutes())})
			}
		}
		admintest.Must(t, store.PutSamples(t.Context(), samples))
		marks[topic] = fmt.Sprintf(`data-mark="%d" data-kind="endpoint"`, began.Unix())
	}
	s.As("look")
	query := []string{"span=15m", "span=3h", "span=24h", "span=7d"}
	for _, minutes := range []time.Duration{5, 30, 100} {
		from, to := now.Add(-minutes*time.Minute).Format(time.RFC3339), now.Format(time.RFC3339)
		query = append(query, url.Values{"from": {from}, "to": {to}}.Encode())
	}
	for topic, mark := range marks {
		for _, q := range query {
			s.Shows("/charts/marks?series="+topic+"&"+q, mark)
		}
	}
}
