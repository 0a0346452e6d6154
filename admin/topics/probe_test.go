package topics_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
)

// broken is a queue with a topic whose breaker is open.
type broken struct {
	admintest.Queue
	next   time.Time
	probes []string
}

func (b *broken) TopicLimits(context.Context, []string) (map[string]observe.TopicLimits, error) {
	return map[string]observe.TopicLimits{"shop.close": {Failures: 12, BreakerOpen: b.next}}, nil
}

func (b *broken) ProbeNow(_ context.Context, topic string) (bool, error) {
	b.probes = append(b.probes, topic)
	return topic == "shop.close", nil
}

type lastAttempt struct{ admintest.NoActivity }

func (lastAttempt) Attempts(context.Context, string, int) ([]activity.Attempt, error) {
	return []activity.Attempt{{ID: "7", Status: 503, Error: "the response has status 503",
		StartedAt: time.Now().Add(-7*time.Hour - 30*time.Minute).UnixMilli()}}, nil
}

// TestTheBannerOfABreakerSaysWhatIsNext: the last answer and the next probe, and operators probe now, which the audit
// trail shows.
func TestTheBannerOfABreakerSaysWhatIsNext(t *testing.T) {
	t.Parallel()
	q := &broken{next: time.Now().Add(30 * time.Second).Truncate(time.Second)}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Activity = q, lastAttempt{} }).As("look")
	s.AddTopic("shop.close")
	s.AddTopic("healthy")
	body := s.Shows("/topics/shop.close", "failed 12 times in a row", "Last answer: <strong>503", "7h 30m ago",
		"Next probe:", q.next.UTC().Format(time.RFC3339))
	if strings.Contains(body, `id="wk-probe"`) {
		t.Error("a viewer may probe")
	}
	if status, _ := s.Post("/topics/shop.close/probe"); status != http.StatusForbidden || len(q.probes) > 0 {
		t.Errorf("a viewer probes: %d, %q", status, q.probes)
	}
	s.As("ops").Shows("/topics/shop.close", `id="wk-probe"`, `form="wk-probe"`, "Probe now")
	if _, body := s.Post("/topics/shop.close/probe"); !strings.Contains(body, "the next due job is called now") {
		t.Errorf("the page does not say that it probes: %s", body)
	}
	if _, body := s.Post("/topics/healthy/probe"); !strings.Contains(body, "jobs are called as they fall due") {
		t.Errorf("the page does not say that nothing is open: %s", body)
	}
	s.Shows("/audit?action=probe", "topic/shop.close", "user/ops")
	q.next = time.Now().Add(-time.Second)
	s.Shows("/topics/shop.close", "with the next due job")
}
