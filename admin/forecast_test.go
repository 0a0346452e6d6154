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

func TestWhatCannotBeCalledIsCarriedOver(t *testing.T) {
	t.Parallel()
	var f queue.Forecast
	f.Minutes[2], f.Minutes[3] = 1200, 600 // at 5 a second 300 a minute are called
	f.Hours[0] = 1800
	p := predict(&f, 0, 5)
	if p.Late != 4*time.Minute || p.At != 4*time.Minute || p.Over != 8*time.Minute || p.Minutes() != 4 || !p.IsLate() {
		t.Errorf("the prediction is %+v", p)
	}
	if p := predict(&f, 0, 100); p.IsLate() || p.Late != 0 {
		t.Errorf("what can be called in time is %s late", p.Late)
	}
	if p := predict(&queue.Forecast{}, 1200, 5); p.Late != 4*time.Minute || p.At != 0 || p.Over != 4*time.Minute {
		t.Errorf("what is due already: %+v", p)
	}
	f = queue.Forecast{}
	f.Hours[5] = 36_000 // twice what is called in an hour
	if p := predict(&f, 0, 5); p.Late != time.Hour || p.At != 6*time.Hour || p.Over != 7*time.Hour {
		t.Errorf("later in the day: %+v", p)
	}
	if p := predict(&f, 1, 0); p.IsLate() {
		t.Error("nothing is known of the capacity, and a lateness is told")
	}
}

// pastRates is a history whose callbacks went on at a rate, with some jobs waiting.
type pastRates struct{ rate, ready float64 }

func (h pastRates) Series(_ context.Context, series, span string) (history.Points, error) {
	half := h.rate / 2
	return history.Points{Series: series, Span: span, Step: 60, Times: []int64{1000, 1060}, Values: map[string][]*float64{
		"delivered": {&half, &h.rate}, "failed": {nil, nil}, "ready": {nil, &h.ready},
	}}, nil
}

func TestCapacityIsTheLeastOfWhatIsKnown(t *testing.T) {
	t.Parallel()
	c := capacity{Limit: 10, Flight: 4, Measured: 7}
	if c.decide(); c.Rate != 4 || c.From != "flight" {
		t.Errorf("it is %+v", c)
	}
	c = capacity{}
	p, _ := pastRates{rate: 8, ready: 100}.Series(t.Context(), "*", "3h")
	c.learn(p)
	if c.decide(); c.Rate != 8 || c.From != "measured" || !c.Sure() || c.Over != time.Minute || c.At.Unix() != 1060 {
		t.Errorf("it is %+v", c)
	}
	c = capacity{}
	p, _ = pastRates{rate: 8}.Series(t.Context(), "*", "3h")
	c.learn(p)
	if c.decide(); c.Sure() {
		t.Error("nothing waited, and yet more is said to be impossible")
	}
}

func TestThePagesSayHowLateJobsWillBe(t *testing.T) {
	t.Parallel()
	q := realQueue(t)
	s := open(t, func(o *Options) {
		o.Queue = q
		o.Pages.History = pastRates{rate: 1, ready: 50}
	}).as("look")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/hook"
	_, err := s.registry.PutTopic(t.Context(), "test", topic)
	must(t, err)
	var pushes []queue.Push
	for i := range 600 {
		pushes = append(pushes, queue.Push{Topic: "shop.close", ID: fmt.Sprint(i), Body: []byte(`{}`), Delay: 10 * time.Minute})
	}
	for _, r := range q.PushBatch(t.Context(), pushes) {
		must(t, r.Err)
	}
	s.shows("/topics/shop.close?tab=forecast", "At 1 callbacks a second", "about 9 minutes late", "kept up in the last 7 days", "Jobs were waiting then")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/overview/ahead", nil)
	must(t, err)
	r.Header.Set("HX-Request", "true")
	status, body := s.send(r)
	if status != http.StatusOK || !strings.Contains(body, "about 9 minutes late") || !strings.Contains(body, "shop.close") {
		t.Errorf("the overview's part answered %d: %s", status, body)
	}
}
