package figures_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// lostHistory answers until the database is lost: no call of topic a succeeds.
type lostHistory struct {
	admintest.FixedHistory
	lost atomic.Bool
}

func (h *lostHistory) Series(_ context.Context, series, span string) (history.Points, error) {
	if h.lost.Load() {
		return history.Points{}, errors.New("the database is away")
	}
	n, now := 7.0, time.Now().Unix()
	return history.Points{
		Series: series, Span: span, Step: 10, Times: []int64{now - 10, now},
		Values: map[string][]*float64{"pushed": {nil, &n}}, Sums: map[string]int64{"pushed": 1234, "failed": 77},
	}, nil
}

// TestTheLastFiguresAreShownWithTheirAge while the database is unavailable; what was never read is unknown.
func TestTheLastFiguresAreShownWithTheirAge(t *testing.T) {
	t.Parallel()
	h := &lostHistory{}
	var passed atomic.Int64
	s := admintest.Open(t, func(o *admin.Options) {
		o.History, o.Now = h, func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	}).As("look")
	s.AddTopic("a")
	s.AddTopic("b")
	s.Shows("/", "Last 15 minutes", "1,234", "7/s now")
	s.Shows("/charts/rates?span=3h", `"values":[null,7]`)
	s.Shows("/topics?q=a", "failing", "0%")
	h.lost.Store(true)
	passed.Store(int64(4 * time.Minute))
	if body := s.Shows("/", "1,234", "As of <time", "4m"); strings.Contains(body, "7/s now") {
		t.Error("the rate of four minutes ago is that of now")
	}
	s.Shows("/charts/rates?span=3h", `"values":[null,7]`, `"note":"As of {0}, 4m`)
	s.Shows("/charts/rates?span=7d", `"none":"Unknown: the registry`)
	s.Shows("/topics?q=a", "failing", "0%")
	if body := s.Shows("/topics?q=b", "unknown"); strings.Contains(body, "bg-green-lt") {
		t.Error("a topic whose success is unknown is healthy")
	}
}

// TestAlertedTopicsAreNotHealthy: each kind of problem has its state, and no topic with a critical alert is healthy.
func TestAlertedTopicsAreNotHealthy(t *testing.T) {
	t.Parallel()
	var alerts *alert.Store
	q := &admintest.Queue{ByTopic: map[string]store.Stats{}}
	s := admintest.Open(t, func(o *admin.Options) {
		alerts = alert.NewStore(o.Registry.DB())
		o.Queue, o.Alerts = q, alerts
	})
	for _, kind := range []string{"no_worker", "no_consumer", "ledger"} {
		name := strings.ReplaceAll(kind, "_", "-")
		topic := registry.NewTopic(name)
		topic.Delivery = registry.DeliveryPull
		_, err := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, err)
		q.ByTopic[name] = store.Stats{Ready: 3, OldestReady: time.Second}
		admintest.SaveAlert(t, alerts, alert.Alert{Key: "topic/" + name, Kind: kind, Severity: alert.Critical, Topic: name,
			Causes: []alert.Cause{{Kind: kind, Severity: alert.Critical, N: 3, For: time.Minute}}})
	}
	s.As("look")
	for name, health := range map[string]string{
		"no-worker": "no worker", "no-consumer": "no consumer", "ledger": "critical alert",
	} {
		s.Shows("/topics?q="+name, `bg-red-lt">`+health)
	}
}

// calls has one on time, and of topic late others, ten minutes ago, that were 1,688 seconds late.
type calls struct{ admintest.NoActivity }

func (calls) Lateness(_ context.Context, topics []string, since time.Time) (map[string]activity.Histogram, error) {
	list := map[string]activity.Histogram{}
	for _, name := range topics {
		list[name] = activity.Histogram{}
		list[name].AddWaiting(1, time.Millisecond)
		if name == "late" && time.Since(since) > 14*time.Minute {
			for range 50 {
				list[name].AddWaiting(1, 1688*time.Second)
			}
		}
	}
	return list, nil
}

// TestWaitingJobsAreLate: the lateness has the window of the success rate, named in the heading, and includes jobs that
// are due but not called.
func TestWaitingJobsAreLate(t *testing.T) {
	t.Parallel()
	q := &admintest.Queue{ByTopic: map[string]store.Stats{"waits": {Ready: 500, OldestReady: time.Hour}}}
	s := admintest.Open(t, func(o *admin.Options) {
		o.Queue, o.Activity, o.History = q, calls{}, admintest.FixedHistory{}
	}).As("look")
	s.AddTopic("late")
	s.AddTopic("waits")
	s.AddTopic("stopped")
	p99 := func(topic string) string {
		_, tile, _ := strings.Cut(s.Shows("/topics/"+topic, "Success 15 min", "Late p99 15 min"), "Late p99 15 min")
		_, tile, _ = strings.Cut(tile, `<div class="h3">`)
		text, _, _ := strings.Cut(tile, "<")
		return text
	}
	if got := p99("late"); !strings.HasPrefix(got, "27m") && !strings.HasPrefix(got, "28m") {
		t.Errorf("ten minutes ago a call was 28 minutes late, but the p99 is %s", got)
	}
	_, tile, _ := strings.Cut(s.Shows("/", "Late p99</div>"), "Late p99</div>")
	if tile = tile[:min(len(tile), 300)]; !strings.Contains(tile, ">5") && !strings.Contains(tile, ">1h") {
		t.Errorf("a job has waited for an hour, but the headline is %s", tile)
	}
	if strip := s.Strip(); !strings.Contains(strip, "Late p99 15 min") || !strings.Contains(strip, "m ") {
		t.Errorf("the strip is %s", strip)
	}
}
