package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/registry"
)

func TestDifferencesAreReadable(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		before, after string
		want          []difference
	}{
		{`{"a":1,"b":"x"}`, `{"a":1,"b":"y"}`, []difference{{"b", "x", "y"}}},
		{`{"h":{"X-A":"1","X-B":"2"}}`, `{"h":{"X-A":"1","X-B":"3","X-C":""}}`, []difference{{"h.X-B", "2", "3"}, {"h.X-C", "", `""`}}},
		{`{"retry":["1m","3m"],"n":null}`, `{"retry":["1m"],"n":0}`, []difference{{"n", "", "0"}, {"retry", "1m, 3m", "1m"}}},
		{`null`, `{"a":true}`, []difference{{"a", "", "true"}}},
		{`{"a":{"b":[{"c":1}]}}`, `null`, []difference{{"a.b", `[{"c":1}]`, ""}}},
		{`null`, `["token/first","user/admin"]`, []difference{{"", "", "token/first, user/admin"}}},
		{`{"h":{}}`, `{"h":{"X":"1"}}`, []difference{{"h", "{}", ""}, {"h.X", "", "1"}}},
		{`null`, `null`, nil},
	} {
		if got := differences(json.RawMessage(x.before), json.RawMessage(x.after)); !slices.Equal(got, x.want) {
			t.Errorf("%s → %s: %q; want %q", x.before, x.after, got, x.want)
		}
	}
}

func TestTheAuditIsFilteredByItsAddress(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/x"
	for _, title := range []string{"first title", "second title"} {
		topic.Title = title
		if _, err := s.registry.PutTopic(t.Context(), "token/ci", topic); err != nil {
			t.Fatal(err)
		}
	}
	ago := func(d time.Duration) string { return time.Now().UTC().Add(-d).Format(minuteForm) }
	for query, shown := range map[string]bool{
		"":                            true,
		"?object=topic/shop.close":    true,
		"?object=topic/shop.*":        true,
		"?object=topic/*&action=put":  true,
		"?object=topic/mail.*":        false,
		"?object=topic/shop_*":        false,
		"?actor=token/ci":             true,
		"?actor=token/other":          false,
		"?action=delete":              false,
		"?since=" + ago(time.Hour):    true,
		"?until=" + ago(time.Hour):    false,
		"?since=" + ago(-2*time.Hour): false,
		"?until=" + ago(-2*time.Hour): true,
		"?since=yesterday":            true, // nonsense leaves nothing out
	} {
		status, body := s.get("/audit" + query)
		if status != http.StatusOK || strings.Contains(body, "second title") != shown {
			t.Errorf("/audit%s: %d, the change is shown: %v", query, status, !shown)
		}
	}
}
