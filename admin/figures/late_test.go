package figures_test

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
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// PastRates is a history with callbacks at a constant rate while jobs were waiting.
type PastRates struct {
	admintest.FixedHistory
	Rate float64
}

func (h PastRates) Series(_ context.Context, series, span string) (history.Points, error) {
	half, waited := h.Rate/2, 60_000.0
	return history.Points{Series: series, Span: span, Step: 60, Times: []int64{1000, 1060},
		Values: map[string][]*float64{
			"delivered": {&half, &h.Rate}, "failed": {nil, nil}, "oldest": {nil, &waited},
		}}, nil
}

// TestThePagesSayHowLateJobsWillBe for push and pull topics. A rate limit is certain, and the overview shows the topics
// that it makes late. A measured rate is only a hint on the topic's page; for a pull topic, more workers may raise it.
func TestThePagesSayHowLateJobsWillBe(t *testing.T) {
	t.Parallel()
	q := admintest.RealQueue(t)
	s := admintest.Open(t, func(o *admin.Options) {
		o.Queue = observe.Figures{Queue: q}
		o.History = PastRates{Rate: 0.3}
	}).As("look")
	for name, limit := range map[string]float64{"shop.close": 1, "jobs.limited": 1, "jobs.free": 0} {
		topic := registry.NewTopic(name)
		topic.CallbackURL, topic.RateLimit = "http://127.0.0.1:1/hook", limit
		if strings.HasPrefix(name, "jobs.") {
			topic.CallbackURL, topic.Delivery = "", registry.DeliveryPull
		}
		_, err := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, err)
		var pushes []store.Push
		for i := range 600 {
			pushes = append(pushes,
				store.Push{Topic: name, ID: fmt.Sprint(i), Body: []byte(`{}`), Delay: 10 * time.Minute})
		}
		for _, r := range q.PushBatch(t.Context(), pushes) {
			admintest.Must(t, r.Err)
		}
	}
	// By the numbers of each minute: all jobs may be in one minute, or some in the next one.
	late := regexp.MustCompile(`(9 to 12|8 to 11) min`)
	for _, name := range []string{"shop.close", "jobs.limited"} {
		page := s.Shows("/topics/"+name+"?tab=forecast", "At 1 job per second", "1 job per second, from the rate limit",
			"highest rate of the last 7 days", "More may be possible")
		if !late.MatchString(page) {
			t.Errorf("the page of %s shows\n%s", name, page)
		}
	}
	body := s.Shows("/topics/jobs.free?tab=forecast", "0.30 jobs per second, measured")
	if strings.Contains(body, "late.") {
		t.Errorf("a measured rate is taken for a limit:\n%s", body)
	}
	s.Shows("/", `hx-get="/overview/late"`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/overview/late", nil)
	admintest.Must(t, err)
	r.Header.Set("HX-Request", "true")
	status, body := s.Send(r)
	if status != http.StatusOK || !strings.Contains(body, "shop.close will be ") || !late.MatchString(body) ||
		!strings.Contains(body, "jobs.limited will be ") || strings.Contains(body, "jobs.free") {
		t.Errorf("the overview's fragment answered %d: %s", status, body)
	}
}
