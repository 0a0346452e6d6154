package figures_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestUnknownIsNotNone: while no shard answers, no number is shown as 0, and nothing is shown as healthy.
func TestUnknownIsNotNone(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = &awayQueue{} }).As("look")
	s.AddTopic("shop.close")
	admintest.Must(t, s.Registry.PutShard(t.Context(), "test", registry.Shard{Name: "s1", URL: "redis://127.0.0.1:1/0",
		State: registry.ShardActive}))
	for path, absent := range map[string]string{"/dead": "No dead letters", "/topics": `<td class="wk-num">0</td>`,
		"/topics/shop.close": `<div class="h2 mb-0">0</div>`} {
		if body := s.Shows(path, "No shard responds (s1)", "–"); strings.Contains(body, absent) {
			t.Errorf("%s shows %s", path, absent)
		}
	}
	if strip := s.Strip(); !strings.Contains(strip, "<dd>–</dd>") || !strings.Contains(strip, "without s1") {
		t.Errorf("the strip is %s", strip)
	}
}

// awayQueue never answers.
type awayQueue struct{ admintest.Queue }

func (*awayQueue) Stats(_ context.Context, topics []string) (map[string]store.Stats, error) {
	return map[string]store.Stats{}, &queue.PartialError{Shards: []string{"s1"}, Err: context.DeadlineExceeded}
}

func (*awayQueue) Totals(context.Context, []string) (map[string]observe.TopicTotals, error) {
	return map[string]observe.TopicTotals{}, &queue.PartialError{Shards: []string{"s1"}, Err: context.DeadlineExceeded}
}

// lostQueue answers until its shard is lost.
type lostQueue struct {
	admintest.DeadQueue
	lost atomic.Bool
}

func (q *lostQueue) away() error {
	if q.lost.Load() {
		return &queue.PartialError{Shards: []string{"s1"}, Err: context.DeadlineExceeded}
	}
	return nil
}

func (q *lostQueue) Counts(context.Context) (map[string]store.Stats, error) {
	return q.ByTopic, q.away()
}

func (q *lostQueue) Stats(context.Context, []string) (map[string]store.Stats, error) {
	return q.ByTopic, q.away()
}

func (q *lostQueue) Totals(context.Context, []string) (map[string]observe.TopicTotals, error) {
	return map[string]observe.TopicTotals{"a": {Stats: q.ByTopic["a"], Total: observe.Totals{Pushed: 123}}}, q.away()
}

// TestOldNumbersAreDimmedAndSayTheirAge wherever they are shown.
func TestOldNumbersAreDimmedAndSayTheirAge(t *testing.T) {
	t.Parallel()
	q := &lostQueue{DeadQueue: *admintest.NewDeadQueue("a", 7)}
	var passed atomic.Int64
	began := time.Now().Add(time.Hour) // a session older than its account is invalid
	s := admintest.Open(t, func(o *admin.Options) {
		o.Queue, o.Now = q, func() time.Time { return began.Add(time.Duration(passed.Load())) }
	}).As("look")
	s.AddTopic("a")
	pages := []string{"/topics", "/topics/a", "/dead"}
	for _, path := range pages {
		if body := s.Shows(path); strings.Contains(body, "wk-old") {
			t.Errorf("%s dims new numbers", path)
		}
	}
	q.lost.Store(true)
	passed.Store(int64(time.Minute))
	for _, path := range pages {
		s.Shows(path, "wk-old", "these numbers are old, from <time", "1m ago", ">7<")
	}
	s.Strip()
	s.Shows("/audit", `<dl class="wk-old">`, "1m ago")
	passed.Store(int64(time.Hour)) // during which no page is open
	if body := s.Shows("/audit", "<dd>–</dd>"); strings.Contains(body, `<dd class="text-red">7</dd>`) {
		t.Error("a page begins with the numbers of an hour ago")
	}
}
