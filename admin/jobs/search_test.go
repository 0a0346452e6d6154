package jobs_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// TestTheSearchFindsTopicsIDsAndPages, and only pages that its user may see.
func TestTheSearchFindsTopicsIDsAndPages(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.AddTopic("order.pay")
	for _, p := range []store.Push{{ID: "order-17"}, {ID: "order-18"}, {ID: "other"}} {
		p.Topic, p.Body, p.Delay = "shop.close", []byte(`1`), time.Hour
		admintest.Must(t, q.Push(t.Context(), p).Err)
	}
	s.As("look")
	found := func(text string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/search?id="+text, nil)
		admintest.Must(t, err)
		r.Header.Set("HX-Request", "true")
		_, body := s.Send(r)
		return body
	}
	wait.For(t, "topics and jobs with the prefix to be found", func() bool { // a busy machine may be late
		body := found("order")
		if strings.Contains(body, "other") {
			t.Fatalf("a prefix finds\n%s", body)
		}
		return strings.Contains(body, `href="/topics/order.pay"`) && strings.Contains(body, "order-18") &&
			strings.Contains(body, `href="/topics/shop.close/jobs/order-17"`)
	})
	if body := found("acc"); !strings.Contains(body, `href="/account"`) || strings.Contains(body, `href="/access"`) {
		t.Errorf("a viewer finds\n%s", body)
	}
	if body := s.As("root").Shows("/search?id=acc"); !strings.Contains(body, `href="/access"`) {
		t.Error("an admin does not find a page")
	}
}

// slowFinder takes longer for each call than a page may take: it sets the clock forward.
type slowFinder struct {
	observe.Figures
	took atomic.Int64
}

func (q *slowFinder) Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error) {
	q.took.Add(int64(150 * time.Millisecond))
	return q.Queue.Find(ctx, refs)
}

// TestASearchOfManyTopicsShowsAPageAtOnce, and continues from there.
func TestASearchOfManyTopicsShowsAPageAtOnce(t *testing.T) {
	t.Parallel()
	q := &slowFinder{Figures: observe.Figures{Queue: admintest.RealQueue(t)}}
	s := admintest.Open(t, func(o *admin.Options) {
		o.Queue, o.Now = q, func() time.Time { return time.Now().Add(time.Duration(q.took.Load())) }
	})
	topics := make([]registry.Topic, 1001)
	for i := range topics {
		topics[i] = registry.NewTopic(fmt.Sprintf("many.%04d", i))
		topics[i].CallbackURL = "http://127.0.0.1:1/"
	}
	if _, err := s.Registry.PutTopics(t.Context(), "test", topics); err != nil {
		t.Fatal(err)
	}
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "many.1000", ID: "order-17", Delay: time.Hour}).Err)
	page := s.As("look").Shows("/search?id=order-17", "/search?on=1&amp;id=order-17")
	if took := time.Duration(q.took.Load()); took > 200*time.Millisecond || strings.Contains(page, "many.1000") {
		t.Errorf("the page took %v", took)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/search?on=1&id=order-17", nil)
	admintest.Must(t, err)
	r.Header.Set("HX-Request", "true")
	if _, body := s.Send(r); !strings.Contains(body, `href="/topics/many.1000/jobs/order-17"`) {
		t.Errorf("the search continues and finds\n%s", body)
	}
}
