package access_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/registry"
)

func TestTheAuditIsFilteredByItsAddress(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/x"
	for _, title := range []string{"first title", "second title"} {
		topic.Title = title
		if _, err := s.Registry.PutTopic(t.Context(), "token/ci", topic); err != nil {
			t.Fatal(err)
		}
	}
	ago := func(d time.Duration) string { return time.Now().UTC().Add(-d).Format(page.MinuteForm) }
	for query, shown := range map[string]bool{
		"":                             true,
		"?object=topic/shop.close":     true,
		"?object=topic/shop.*":         true,
		"?object=topic/*&action=put":   true,
		"?object=topic/mail.*":         false,
		"?object=topic/shop_*":         false,
		"?actor=token/ci":              true,
		"?actor=token/other":           false,
		"?action=delete":               false,
		"?since=" + ago(time.Hour):     true,
		"?until=" + ago(time.Hour):     false,
		"?since=" + ago(-2*time.Hour):  false,
		"?until=" + ago(-2*time.Hour):  true,
		"?since=yesterday":             true, // invalid values filter nothing
		"?cursor=18446744073709551615": true, // has 64 bits; SQLite accepts 63
	} {
		status, body := s.Get("/audit" + query)
		if status != http.StatusOK || strings.Contains(body, "second title") != shown {
			t.Errorf("/audit%s: %d, the change is shown: %v", query, status, !shown)
		}
	}
	if !s.Registry.Up() {
		t.Error("a cursor marked the registry as unreachable")
	}
}

// TestAChangeShowsWhatChanged: of a changed topic the audit shows the changed fields, old and new, and nothing else.
func TestAChangeShowsWhatChanged(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/x"
	for _, rate := range []float64{50, 5} {
		topic.RateLimit = rate
		_, err := s.Registry.PutTopic(t.Context(), "token/ci", topic)
		admintest.Must(t, err)
	}
	_, body := s.Get("/audit?object=topic/shop.close")
	_, rows, _ := strings.Cut(body, "<tbody>")
	changed, created, _ := strings.Cut(rows, "</tr>")
	changed = regexp.MustCompile("<[^>]*>").ReplaceAllString(changed, " ")
	if !strings.Contains(strings.Join(strings.Fields(changed), " "), "topic/shop.close rate_limit 50 → 5") {
		t.Errorf("the change is shown as %s", changed)
	}
	if strings.Contains(changed, "_at") || strings.Contains(changed, "callback_url") {
		t.Errorf("fields that did not change are shown: %s", changed)
	}
	if !strings.Contains(created, "added") || !strings.Contains(created, "http://127.0.0.1:1/<wbr>x") {
		t.Errorf("the new topic is shown as %s", created)
	}
}

// TestAuditShowsOldAndNewURLsAndOneLineOfAPause: of a URL only the secret part is hidden, and a pause is one line.
func TestAuditShowsOldAndNewURLsAndOneLineOfAPause(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	topic := registry.NewTopic("shop.close")
	for _, url := range []string{"http://127.0.0.1:1/old?key=abc", "http://127.0.0.1:1/new?key=abd"} {
		topic.CallbackURL = url
		_, err := s.Registry.PutTopic(t.Context(), "token/ci", topic)
		admintest.Must(t, err)
	}
	until := time.Date(2031, 2, 3, 4, 5, 0, 0, time.UTC)
	admintest.Must(t, s.Registry.PauseTopic(t.Context(), "user/wei", "shop.close",
		registry.Pause{Reason: "the bank is closed", Until: until}))
	_, body := s.Get("/audit?object=topic/shop.close")
	text := strings.Join(strings.Fields(regexp.MustCompile("<[^>]*>").ReplaceAllString(body, " ")), " ")
	text = strings.ReplaceAll(text, "/ ", "/")
	for _, want := range []string{
		"state active → paused · the bank is closed · until 2031-02-03 04:05:00", "callback_url http://127.0.0.1:1/old",
		"→ http://127.0.0.1:1/new",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the audit lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, "pause_reason") || strings.Contains(text, "abc") || strings.Contains(text, "abd") {
		t.Errorf("the audit shows %s", text)
	}
}
