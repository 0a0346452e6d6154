package forecast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// delayed are topics with jobs that fall due in the third minute from now.
type delayed struct {
	mu  sync.Mutex
	due map[string]int64
	err error
}

// set changes what the next count finds.
func (d *delayed) set(due map[string]int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due, d.err = due, err
}

func (d *delayed) Counts(context.Context) (map[string]store.Stats, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := map[string]store.Stats{}
	for topic, n := range d.due {
		counts[topic] = store.Stats{Delayed: n}
	}
	return counts, d.err
}

func (d *delayed) Forecast(_ context.Context, topic string, _ time.Duration) (f observe.Forecast, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.Minutes[2] = d.due[topic]
	return f, nil
}

func showing(jobs *delayed, topics ...*registry.Topic) (*Due, *prometheus.Registry) {
	r := prometheus.NewRegistry()
	d := &Due{Jobs: jobs, Logger: slog.New(slog.DiscardHandler), Snapshot: func() *registry.Snapshot {
		return &registry.Snapshot{Topics: registry.NewTopics(topics...)}
	}}
	d.Register(r)
	return d, r
}

// TestDueJobsAreThoseThatDispatchersCall, in the minute in which they fall due. An old number is not shown: it would say
// that nothing is coming.
func TestDueJobsAreThoseThatDispatchersCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		jobs := &delayed{due: map[string]int64{
			"a": 1000, "limited": 5000, "pull": 700, "paused": 300, "unknown": 90, "empty": 0,
		}}
		topic := func(name string) *registry.Topic { return &registry.Topic{Name: name, State: registry.TopicActive} }
		limited, pull, paused := topic("limited"), topic("pull"), topic("paused")
		limited.RateLimit, pull.Delivery, paused.State = 5, registry.DeliveryPull, registry.TopicPaused
		d, r := showing(jobs, topic("a"), limited, pull, paused, topic("empty"))
		var leads atomic.Bool
		leads.Store(true)
		d.Leads = leads.Load
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		synctest.Wait()
		expect(t, r, map[string]float64{"3": 1000 + 5*60})

		jobs.set(nil, errors.New("no shard answers"))
		time.Sleep(dueEvery + time.Second)
		if old := shown(t, r); len(old) != 0 {
			t.Errorf("old numbers are shown: %v", old)
		}
		jobs.set(map[string]int64{"a": 7}, &queue.PartialError{})
		time.Sleep(dueEvery)
		synctest.Wait()
		expect(t, r, map[string]float64{"3": 7})
		leads.Store(false)
		if old := shown(t, r); len(old) != 0 {
			t.Errorf("while another host leads, this one shows %v", old)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestDueJobsWhileNoShardAnswers are unknown: 0 would let the dispatchers be scaled down during an outage.
func TestDueJobsWhileNoShardAnswers(t *testing.T) {
	t.Parallel()
	d, r := showing(&delayed{err: &queue.PartialError{Shards: []string{"redis-1"}, Err: errors.New("down")}})
	d.show(t.Context())
	if got := shown(t, r); len(got) != 0 {
		t.Errorf("due by minute: %v", got)
	}
}

// TestDueJobsOfTheLargestTopics are counted: each topic costs a call to Redis.
func TestDueJobsOfTheLargestTopics(t *testing.T) {
	t.Parallel()
	jobs, topics := &delayed{due: map[string]int64{}}, []*registry.Topic{}
	for i := range dueTopics + 1 {
		topic := &registry.Topic{Name: fmt.Sprintf("t%d", i), State: registry.TopicActive}
		topics, jobs.due[topic.Name] = append(topics, topic), int64(10)
	}
	jobs.due["t7"] = 3
	d, r := showing(jobs, topics...)
	d.show(t.Context())
	expect(t, r, map[string]float64{"3": 10 * dueTopics})
}

// expect checks the numbers of jobs by minute; those that are not named are 0.
func expect(t *testing.T, r *prometheus.Registry, minutes map[string]float64) {
	t.Helper()
	want := map[string]float64{}
	for i := range dueMinutes {
		want[strconv.Itoa(i+1)] = 0
	}
	maps.Copy(want, minutes)
	if got := shown(t, r); !maps.Equal(got, want) {
		t.Errorf("due by minute: %v, want %v", got, want)
	}
}

func shown(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return got
}
