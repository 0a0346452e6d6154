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

// TestNoForecastWhereNothingIsKnown: of the workers of a pull topic, and of the topics of a namespace.
func TestNoForecastWhereNothingIsKnown(t *testing.T) {
	t.Parallel()
	q := realQueue(t)
	s := open(t, func(o *Options) {
		o.Queue = q
		o.History = PastRates{Rate: 0.3, Ready: 50}
	}).as("look")
	for _, name := range []string{"jobs", "made.*"} {
		topic := registry.NewTopic(name)
		topic.Delivery, topic.RateLimit = registry.DeliveryPull, 1
		_, err := s.registry.PutTopic(t.Context(), "test", topic)
		must(t, err)
	}
	var pushes []queue.Push
	for i := range 600 {
		pushes = append(pushes, queue.Push{Topic: "jobs", ID: fmt.Sprint(i), Body: []byte(`{}`), Delay: 10 * time.Minute})
	}
	for _, r := range q.PushBatch(t.Context(), pushes) {
		must(t, r.Err)
	}
	if body := s.shows("/topics/jobs?tab=forecast", "600", "nothing is known"); strings.Contains(body, "late") {
		t.Errorf("a pull topic is predicted to be late: %s", body)
	}
	if body := s.shows("/topics/made.*?tab=forecast", "no forecast"); strings.Contains(body, "wk-chart") {
		t.Error("a namespace has a chart")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/overview/late", nil)
	must(t, err)
	r.Header.Set("HX-Request", "true")
	if _, body := s.send(r); strings.Contains(body, "jobs will be") {
		t.Errorf("the overview predicts: %s", body)
	}
}

func TestThePagesSayHowLateJobsWillBe(t *testing.T) {
	t.Parallel()
	q := realQueue(t)
	s := open(t, func(o *Options) {
		o.Queue = q
		o.History = PastRates{Rate: 0.3, Ready: 50}
	}).as("look")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL, topic.RateLimit = "http://127.0.0.1:1/hook", 1
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
	s.shows("/topics/shop.close?tab=forecast", "At 1 callbacks a second", "9 to 12 minutes late",
		"highest rate of the last 7 days", "More may be possible")
	s.shows("/", `hx-get="/overview/late"`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/overview/late", nil)
	must(t, err)
	r.Header.Set("HX-Request", "true")
	status, body := s.send(r)
	if status != http.StatusOK || !strings.Contains(body, "shop.close will be 9 to 12 min late") {
		t.Errorf("the overview's part answered %d: %s", status, body)
	}
}
