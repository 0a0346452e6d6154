package jobs_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe/activity"
)

// calls is an activity with the attempts of some topics.
type calls struct {
	admintest.NoActivity
	of map[string][]activity.Attempt
}

func (c calls) Attempts(_ context.Context, topic string, limit int) ([]activity.Attempt, error) {
	list := slices.Clone(c.of[topic])
	for i := range list {
		list[i].Topic = topic
	}
	return list[:min(limit, len(list))], nil
}

var callShown = regexp.MustCompile(`href="/topics/[\w.]+/jobs/([\w-]+)"`)

// TestDeliveriesOfAllTopics: the newest come first, whatever their topic; status class, topic and latency narrow the
// list, which is paged and bounded.
func TestDeliveriesOfAllTopics(t *testing.T) {
	t.Parallel()
	c := calls{of: map[string][]activity.Attempt{
		"shop.a": {{ID: "late", StartedAt: 4000, Status: 200, Outcome: "done", TookMS: 900},
			{ID: "early", StartedAt: 1000, Status: 500, Outcome: "retry", TookMS: 30}},
		"shop.b": {{ID: "middle", StartedAt: 3000, Status: 503, Outcome: "retry", TookMS: 2000}},
		"mail":   {{ID: "silent", StartedAt: 2000, Outcome: "retry", Reason: "timeout", TookMS: 10_000}},
	}}
	s := admintest.Open(t, func(o *admin.Options) { o.Activity = c }).As("look")
	for name := range c.of {
		s.AddTopic(name)
	}
	for query, want := range map[string]string{
		"": "late middle silent early", "?status=5xx": "middle early", "?status=none": "silent", "?status=2xx": "late",
		"?topic=shop.*": "late middle early", "?topic=mail": "silent", "?slower=900": "late middle silent",
		"?topic=shop.*&status=5xx&slower=100": "middle", "?topic=nobody": "", "?status=9xx": "late middle silent early",
	} {
		var ids []string
		for _, m := range callShown.FindAllStringSubmatch(s.Shows("/deliveries"+query), -1) {
			ids = append(ids, m[1])
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s shows %q, want %q", query, got, want)
		}
	}
	s.Shows("/deliveries?topic=shop.*&status=5xx", `value="shop.*"`, `value="5xx" selected`)

	for n := range 12 {
		name := fmt.Sprint("many.", n)
		s.AddTopic(name)
		for k := range 100 {
			c.of[name] = append(c.of[name], activity.Attempt{ID: fmt.Sprint("job-", k), StartedAt: int64(5000 + k), Status: 404})
		}
	}
	body := s.Shows("/deliveries?status=4xx&page=2", "51–100", "Only the newest 1,000 are shown.", "2 / 20", "status=4xx")
	if n := len(callShown.FindAllString(body, -1)); n != 50 {
		t.Errorf("a page shows %d calls", n)
	}
}
