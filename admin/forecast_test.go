package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// PastRates is a history whose callbacks went on at a rate, with some jobs waiting.
type PastRates struct{ Rate, Ready float64 }

func (h PastRates) Series(_ context.Context, series, span string) (history.Points, error) {
	half := h.Rate / 2
	return history.Points{Series: series, Span: span, Step: 60, Times: []int64{1000, 1060}, Values: map[string][]*float64{
		"delivered": {&half, &h.Rate}, "failed": {nil, nil}, "ready": {nil, &h.Ready},
	}}, nil
}

func TestThePagesSayHowLateJobsWillBe(t *testing.T) {
	t.Parallel()
	q := realQueue(t)
	s := open(t, func(o *Options) {
		o.Queue = q
		o.History = PastRates{Rate: 1, Ready: 50}
	}).as("look")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/hook"
	_, err := s.registry.PutTopic(t.Context(), "test", topic)
	must(t, err)
	var pushes []queue.Push
	for i := range 600 {
		pushes = append(pushes,
			queue.Push{Topic: "shop.close", ID: fmt.Sprint(i), Body: []byte(`{}`), Delay: 10 * time.Minute})
	}
	for _, r := range q.PushBatch(t.Context(), pushes) {
		must(t, r.Err)
	}
	s.shows("/topics/shop.close?tab=forecast", "At 1 callbacks a second", "about 9 minutes late",
		"kept up in the last 7 days", "Jobs were waiting then")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/overview/ahead", nil)
	must(t, err)
	r.Header.Set("HX-Request", "true")
	status, body := s.send(r)
	if status != http.StatusOK || !strings.Contains(body, "about 9 minutes late") ||
		!strings.Contains(body, "shop.close") {
		t.Errorf("the overview's part answered %d: %s", status, body)
	}
}
