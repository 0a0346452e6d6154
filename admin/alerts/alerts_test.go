package alerts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/message"
)

func TestAlertsPage(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
	})
	for key, ended := range map[string]*time.Time{"a": nil, "b": new(time.Now())} {
		admintest.SaveAlert(t, store, alert.Alert{Key: key, Kind: "shard_down", Severity: "critical", EndedAt: ended,
			Causes: []alert.Cause{{Kind: "shard_down", Severity: "critical", Text: message.Plain("<script>" + key)}}})
	}
	admintest.Must(t, store.Save(t.Context(), &alert.Changes{Deliveries: []alert.Delivery{
		{ID: "1", Channel: "mail", Recipient: "ops@example.com", State: "failed", Error: "421 busy", At: time.Now()},
	}}))
	s.As("look").Shows("/alerts", "&lt;script&gt;a", "&lt;script&gt;b", "critical")
	s.Shows("/alerts/deliveries", "421 busy")
	s.Shows("/", "&lt;script&gt;a")
}

// TestEachCauseIsShownWithItsTimes, in an open alert and in one that has ended.
func TestEachCauseIsShownWithItsTimes(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	store, at := alert.NewStore(s.Registry.DB()), time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	after := func(minutes int) time.Time { return at.Add(time.Duration(minutes) * time.Minute) }
	for key, ended := range map[string]*time.Time{"open": nil, "ended": new(after(48))} {
		a := alert.Alert{Key: key, Shard: key, Kind: "shard_down", Severity: "critical", BeganAt: at, EndedAt: ended,
			Causes: []alert.Cause{
				{Kind: "shard_down", Severity: "critical", BeganAt: after(13), Text: message.Plain("refused")},
				{Kind: "shard_slow", Severity: "warning", BeganAt: at, EndedAt: after(20),
					Text: message.Plain("p99 1s")},
			}}
		if ended != nil {
			a.Causes[0].EndedAt = *ended
		}
		admintest.SaveAlert(t, store, a)
	}
	page := s.Shows("/alerts")
	for _, want := range []string{
		`refused · .*since <time class="wk-time" datetime="` + after(13).Format(time.RFC3339),
		`p99 1s · .*<time class="wk-time" datetime="` + at.Format(time.RFC3339) + `.* – <time class="wk-time" datetime="` +
			after(20).Format(time.RFC3339) + `.*\(20m\)`,
		`refused · .*<time class="wk-time" datetime="` +
			after(13).Format(time.RFC3339) + `.* – .*\(35m\)`,
	} {
		if !regexp.MustCompile(want).MatchString(strings.Join(strings.Fields(page), " ")) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestAlertsAreHandledTogether: the selected ones are acknowledged, muted or neither. A topic's page links to its
// alerts.
func TestAlertsAreHandledTogether(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("ops")
	s.AddTopic("a")
	store := alert.NewStore(s.Registry.DB())
	for _, topic := range []string{"a", "b", "c"} {
		admintest.SaveAlert(t, store, alert.Alert{Key: "topic/" + topic, Topic: topic, Kind: "late", Severity: "warning",
			Causes: []alert.Cause{{Kind: "late", Severity: "warning"}}})
	}
	handled := func() (acknowledged, muted int) {
		t.Helper()
		list, err := store.ListAlerts(t.Context(), alert.Filter{})
		admintest.Must(t, err)
		for _, a := range list {
			if a.Handling.Acknowledged() {
				acknowledged++
			}
			if a.Handling.Muted(time.Now()) {
				muted++
			}
		}
		return acknowledged, muted
	}
	both := []string{"key", "topic/a", "key", "topic/b"}
	s.Post("/alerts/handle", append(both, "why", "mine")...)
	if n, _ := handled(); n != 2 {
		t.Errorf("%d are acknowledged", n)
	}
	s.Post("/alerts/handle", append(both, "key", "topic/c", "why", "known", "mute", "1", "for", "4h")...)
	if _, n := handled(); n != 3 {
		t.Errorf("%d are muted", n)
	}
	s.Post("/alerts/handle", append(both, "undo", "1")...)
	if _, n := handled(); n != 1 {
		t.Errorf("%d are still muted", n)
	}
	if _, body := s.Post("/alerts/handle", "why", "mine"); !strings.Contains(body, "Select at least one alert.") {
		t.Error("nothing is selected, and nothing said")
	}
	s.Shows("/topics/a", `href="/alerts?topic=a"`)
	if page := s.Shows("/alerts?topic=a", "topic a is late"); strings.Contains(page, "topic b is late") {
		t.Error("the alerts of a topic are those of all topics")
	}
}

// TestAlertsAreShownWithoutTheDatabase: those that this host's redis-checker knows, with their age.
func TestAlertsAreShownWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), time.Now().Add(-3*time.Minute)
	s := admintest.Open(t, func(o *admin.Options) { o.Alerts = alert.NewStore(o.Registry.DB()).In(dir) }).As("look")
	down := alert.Cause{Kind: "shard_down", Severity: "critical", BeganAt: at, Text: message.Plain("connection lost")}
	text, err := json.Marshal(alert.Known{At: at, Alerts: []*alert.Alert{
		{Key: "shard/a", Shard: "a", Kind: "shard_down", Severity: "critical", BeganAt: at,
			Causes: []alert.Cause{down}},
	}})
	admintest.Must(t, errors.Join(err, os.WriteFile(filepath.Join(dir, "alerts.json"), text, 0o600)))
	if strings.Contains(s.Shows("/alerts", "No open problems"), "connection lost") {
		t.Error("the file is shown although the database answers")
	}
	admintest.Must(t, s.Registry.Close())
	s.Shows("/alerts", "shard a is down", "connection lost", "database is unavailable", "3m ")
	if page := s.Shows("/alerts/deliveries", "cannot be listed", "still sent"); strings.Contains(page, "No messages yet") {
		t.Error("the page says that there are no messages")
	}
}

// TestTheWorstAlertsAreListed, if there are more than the page shows: an old critical one before newer warnings.
func TestTheWorstAlertsAreListed(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	store := alert.NewStore(s.Registry.DB())
	for i := range 203 {
		a := alert.Alert{Key: fmt.Sprint("topic/t", i), Topic: fmt.Sprint("t", i), Kind: "late",
			Severity: alert.Warning}
		if i == 0 {
			a.Severity = alert.Critical
		}
		a.Causes = []alert.Cause{{Kind: a.Kind, Severity: a.Severity}}
		admintest.SaveAlert(t, store, a)
	}
	s.Shows("/alerts", "topic t0 is late", ">203</span>", "Only the 200 most severe are listed.")
	s.Shows("/alerts?kind=late", "topic t0 is late")
}
