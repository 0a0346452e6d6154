package topics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func TestEveryTabOfATopicShowsItsNumbers(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("ops")
	for i := range 70 {
		q.Push(t.Context(), store.Push{Topic: "shop.close", ID: fmt.Sprint("order ", i), Body: []byte(`{}`),
			Delay: time.Hour + time.Duration(i)*time.Second})
	}
	s.Shows("/topics/shop.close", "shop.close", "127.0.0.1:1/hook", "nav-link")
	body := s.Shows("/topics/shop.close?tab=jobs&state=delayed", "order 0", "/topics/shop.close/jobs/order%20",
		"cursor=")
	if strings.Count(body, `name="job"`) != 50 {
		t.Errorf("%d jobs on a page", strings.Count(body, `name="job"`))
	}
	s.Shows("/topics/shop.close?tab=attempts", "No callbacks in the last week")
	s.Shows("/topics/shop.close?tab=ledger", "adds up", "70 pushed")
	s.Shows("/topics/shop.close?tab=forecast", "data-chart-json")
	s.Shows("/topics/shop.close?tab=push", "curl http://127.0.0.1:6789/v1/topics/shop.close/jobs")
	s.Shows("/topics/shop.close?tab=push&in=go", "c.Push(ctx")
	s.Post("/topics/shop.close/jobs", "do", "run", "job", "order 1", "job", "order 2")
	if j, err := q.Get(t.Context(), "shop.close", "order 2"); err != nil || j.State != store.Ready {
		t.Errorf("after run it is %+v, %v", j, err)
	}
	if _, body := s.Post("/topics/shop.close/jobs", "do", "delete", "job", "order 1", "job",
		"nobody"); !strings.Contains(body, "1 of 2") {
		t.Errorf("deleting an existing and an unknown job: %s", body)
	}
}

// TestNoLimitOfAttemptsIsSaidSo: for a pull topic, 0 attempts are shown as no limit.
func TestNoLimitOfAttemptsIsSaidSo(t *testing.T) {
	q := admintest.RealQueue(t)
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = observe.Figures{Queue: q} }).As("look")
	topic := registry.NewTopic("films")
	topic.Delivery, topic.MaxAttempts = registry.DeliveryPull, 0
	_, err := s.Registry.PutTopic(t.Context(), "test", topic)
	admintest.Must(t, err)
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "films", ID: "one", Body: []byte(`{}`),
		Delay: time.Hour}).Err)
	s.Shows("/topics/films", "<dt>Attempts</dt><dd>no limit</dd>")
	s.Shows("/topics/films/jobs/one", "<dt>Attempts</dt><dd>0</dd>")
}

// TestANamespaceHasNoForecast, because its topics are created by use.
func TestANamespaceHasNoForecast(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	topic := registry.NewTopic("made.*")
	topic.Delivery = registry.DeliveryPull
	_, err := s.Registry.PutTopic(t.Context(), "test", topic)
	admintest.Must(t, err)
	if body := s.Shows("/topics/made.*?tab=forecast", "No forecast"); strings.Contains(body, "wk-chart") {
		t.Error("a namespace has a chart")
	}
}
